// Replaces the server of one host: the only file that touches the types of ASP.NET Core and Millrace on the generic road.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Millrace.StartupHooks;

internal static class ServerSwap
{
    /// <summary>Whether a host of this process has had its server replaced.</summary>
    public static bool HasSwapped { get; private set; }

    public static void OnGenericHost(object payload)
    {
        if (payload is IHostBuilder builder)
        {
            builder.ConfigureServices(static (_, services) => Apply(services));
        }
    }

    public static void Apply(IServiceCollection services)
    {
        ServiceDescriptor? server = services.LastOrDefault(static service => service.ServiceType == typeof(IServer));
        if (server is not null && IsInProcess(server))
        {
            return;
        }

        RunRequest.PutHostUrlsBack();
        if (server is null)
        {
            return; // a worker without a web server
        }
        HasSwapped = true;
        HostingStartups.PutBack();
        services.AddMillrace();
        if (RunRequest.RouterKey.Length > 0)
        {
            services.Configure<MillraceOptions>(static options => options.IsRouted = true);
        }
        if (RunRequest.PathBase.Length > 0 || RunRequest.RouterKey.Length > 0)
        {
            services.Insert(0, ServiceDescriptor.Singleton<IStartupFilter>(new RoutedRequests(RunRequest.PathBase, RunRequest.RouterKey)));
        }
        if (RunRequest.Addresses is not null || RunRequest.HasReportPipe)
        {
            Wrap(services, services.Last(static service => service.ServiceType == typeof(IServer)));
        }
    }

    // A host that is called from within its process alone has no address, and must not take those of the one that listens.
    private static bool IsInProcess(ServiceDescriptor server) =>
        (server.ImplementationInstance?.GetType() ?? server.ImplementationType)?.FullName == "Microsoft.AspNetCore.TestHost.TestServer";

    private static void Wrap(IServiceCollection services, ServiceDescriptor real)
    {
        services.Remove(real);
        services.AddSingleton<IServer>(provider => new RunServer(
            (IServer)ActivatorUtilities.CreateInstance(provider, real.ImplementationType!), provider.GetRequiredService<IOptions<KestrelServerOptions>>()));
    }
}
