// Replaces the server of one host: the only file that touches the types of ASP.NET Core and Millrace on the generic road.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace Millrace.StartupHooks;

internal static class ServerSwap
{
    public static void OnGenericHost(object payload)
    {
        if (payload is IHostBuilder builder)
        {
            builder.ConfigureServices(static (_, services) => Apply(services));
        }
    }

    public static void Apply(IServiceCollection services)
    {
        if (!services.Any(static service => service.ServiceType == typeof(IServer)))
        {
            return; // a worker without a web server
        }
        EnvironmentList.Remove(EnvironmentList.HostingStartupAssemblies, ';', static entry => entry == AssemblyLookup.HookName);
        services.AddMillrace();
        if (RunRequest.Addresses is not null || RunRequest.HasReportPipe)
        {
            Wrap(services, services.Last(static service => service.ServiceType == typeof(IServer)));
        }
    }

    private static void Wrap(IServiceCollection services, ServiceDescriptor real)
    {
        services.Remove(real);
        services.AddSingleton<IServer>(provider => new RunServer((IServer)ActivatorUtilities.CreateInstance(provider, real.ImplementationType!)));
    }
}
