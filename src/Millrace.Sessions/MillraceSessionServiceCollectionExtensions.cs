// AddMillraceSession(), where AddSession() stood.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.DataProtection;
using Microsoft.AspNetCore.Session;
using Microsoft.Extensions.Caching.Distributed;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.Sessions;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds sessions that a flood of new ones cannot take away.</summary>
public static class MillraceSessionServiceCollectionExtensions
{
    /// <summary>Takes the place of <c>AddSession</c>. What was set for <see cref="SessionOptions"/> holds.</summary>
    /// <param name="services">The application's services.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddMillraceSession(this IServiceCollection services) => services.AddMillraceSession(static _ => { });

    /// <summary>Takes the place of <c>AddSession</c>, with its options and more of them. What was set for <see cref="SessionOptions"/> holds where this does not set it anew.</summary>
    /// <param name="services">The application's services.</param>
    /// <param name="configure">Sets the options.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddMillraceSession(this IServiceCollection services, Action<MillraceSessionOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(configure);
        services.AddDataProtection();
        services.TryAddSingleton(TimeProvider.System);
        if (!services.Any(static service => service.ServiceType == typeof(SessionServices)))
        {
            services.AddOptions<MillraceSessionOptions>().Configure<IOptions<SessionOptions>>(static (options, stock) =>
            {
                options.Cookie = stock.Value.Cookie;
                options.IdleTimeout = stock.Value.IdleTimeout;
                options.IOTimeout = stock.Value.IOTimeout;
            });
        }
        services.Configure(configure);
        services.TryAddSingleton<SessionCounters>();
        services.TryAddSingleton(static provider => new SessionLog(provider.GetRequiredService<ILoggerFactory>().CreateLogger(SessionLog.Category), provider.GetRequiredService<TimeProvider>()));
        services.TryAddSingleton(static provider => Spent(provider.GetRequiredService<IOptions<MillraceSessionOptions>>().Value, provider.GetRequiredService<TimeProvider>()));
        services.TryAddSingleton(static provider => new MemorySessionStore(
            provider.GetRequiredService<IOptions<MillraceSessionOptions>>().Value, provider.GetRequiredService<SpentSeals>(), provider.GetRequiredService<SessionCounters>(),
            provider.GetRequiredService<SessionLog>(), provider.GetRequiredService<TimeProvider>()));
        services.TryAddSingleton<ISessionBackingStore>(static provider => provider.GetRequiredService<MemorySessionStore>());
        services.TryAddSingleton(static provider => new SessionServices(
            provider.GetRequiredService<ISessionBackingStore>(), provider.GetRequiredService<SpentSeals>(), provider.GetRequiredService<SessionCounters>(),
            provider.GetRequiredService<SessionLog>(), provider.GetRequiredService<IDataProtectionProvider>(), provider.GetRequiredService<TimeProvider>()));
        services.Replace(ServiceDescriptor.Transient<ISessionStore, StockSessionStore>());
        return services;
    }

    /// <summary>Keeps sessions in the application's <c>IDistributedCache</c>, which several processes may share, and no longer in memory.</summary>
    /// <param name="services">The application's services; <c>AddMillraceSession</c> may be called before or after.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddMillraceSessionDistributedCache(this IServiceCollection services)
    {
        ArgumentNullException.ThrowIfNull(services);
        return services.Replace(ServiceDescriptor.Singleton<ISessionBackingStore>(static provider => new DistributedCacheSessionStore(provider.GetRequiredService<IDistributedCache>())));
    }

    /// <summary>Adds a check that says when the store of sessions does not answer, or sessions in use had to go: <see cref="SessionHealthCheck"/>.</summary>
    /// <param name="builder">The application's checks.</param>
    /// <param name="name">Its name among them.</param>
    /// <returns>The checks.</returns>
    public static IHealthChecksBuilder AddMillraceSession(this IHealthChecksBuilder builder, string name = "sessions")
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.Services.TryAddSingleton(static provider => new SessionHealthCheck(provider.GetRequiredService<SessionServices>(), provider.GetRequiredService<TimeProvider>()));
        return builder.Add(new HealthCheckRegistration(name, static provider => provider.GetRequiredService<SessionHealthCheck>(), HealthStatus.Degraded, null));
    }

    private static SpentSeals Spent(MillraceSessionOptions options, TimeProvider time) => new(options.BudgetBytes, options.EffectiveSealValidity, time);
}
