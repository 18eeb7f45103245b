// How an application says that Millrace is its server.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Options;
using Millrace;
using Millrace.AspNetCore;

namespace Microsoft.AspNetCore.Hosting
{
    /// <summary>Millrace as the server of a web host.</summary>
    public static class MillraceWebHostBuilderExtensions
    {
        /// <summary>Serves the application with Millrace. Addresses come as usual: <c>--urls</c>, <c>ASPNETCORE_URLS</c>, configuration.</summary>
        /// <param name="builder">The web host's builder.</param>
        /// <returns>The same builder.</returns>
        public static IWebHostBuilder UseMillrace(this IWebHostBuilder builder)
        {
            ArgumentNullException.ThrowIfNull(builder);
            return builder.ConfigureServices(static services => services.AddMillrace());
        }

        /// <summary>Serves the application with Millrace.</summary>
        /// <param name="builder">The web host's builder.</param>
        /// <param name="configure">Sets options, after those of the configuration section <c>Millrace</c>.</param>
        /// <returns>The same builder.</returns>
        public static IWebHostBuilder UseMillrace(this IWebHostBuilder builder, Action<MillraceOptions> configure)
        {
            ArgumentNullException.ThrowIfNull(configure);
            return builder.UseMillrace().ConfigureServices(services => services.Configure(configure));
        }
    }
}

namespace Microsoft.Extensions.DependencyInjection
{
    /// <summary>Millrace as the server of a host.</summary>
    public static class MillraceServiceCollectionExtensions
    {
        /// <summary>Puts Millrace in the place of every server registered so far. On systems other than Linux the servers stay, with a warning at the start.</summary>
        /// <param name="services">The host's services.</param>
        /// <returns>The same collection.</returns>
        public static IServiceCollection AddMillrace(this IServiceCollection services)
        {
            ArgumentNullException.ThrowIfNull(services);
            if (OperatingSystem.IsLinux())
            {
                services.RemoveAll<IServer>();
                services.AddSingleton<IServer, HostedServer>();
            }
            else
            {
                services.AddHostedService<NonLinuxFallback>();
            }

            services.AddOptions<MillraceOptions>();
            services.TryAddSingleton<KestrelSettings>();
            services.TryAddSingleton<ForwardedTrust>();
            services.TryAddSingleton<OptionsSetup>();
            services.TryAddEnumerable(ServiceDescriptor.Singleton<IConfigureOptions<MillraceOptions>, OptionsSetup>(Setup));
            services.TryAddEnumerable(ServiceDescriptor.Singleton<IPostConfigureOptions<MillraceOptions>, OptionsSetup>(Setup));
            services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<MillraceOptions>, OptionsSetup>(Setup));
            return services;
        }

        private static OptionsSetup Setup(IServiceProvider services) => services.GetRequiredService<OptionsSetup>();
    }
}
