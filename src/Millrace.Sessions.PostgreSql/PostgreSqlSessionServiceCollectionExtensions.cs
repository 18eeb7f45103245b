// AddMillraceSessionPostgreSql(), beside AddMillraceSession().

using Microsoft.Extensions.DependencyInjection.Extensions;
using Millrace.Sessions;
using Millrace.Sessions.PostgreSql;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Keeps sessions in PostgreSQL.</summary>
public static class PostgreSqlSessionServiceCollectionExtensions
{
    /// <summary>Keeps sessions in a table that several processes share, and no longer in memory.</summary>
    /// <param name="services">The application's services; <c>AddMillraceSession</c> may be called before or after.</param>
    /// <param name="connectionString">Where the database is, as Npgsql reads it.</param>
    /// <param name="configure">Sets further options; null: none.</param>
    /// <returns>The services.</returns>
    /// <exception cref="ArgumentException">An option has a value that cannot be.</exception>
    public static IServiceCollection AddMillraceSessionPostgreSql(this IServiceCollection services, string connectionString, Action<PostgreSqlSessionOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        var options = new PostgreSqlSessionOptions { ConnectionString = connectionString };
        configure?.Invoke(options);
        options.Check();
        services.TryAddSingleton(TimeProvider.System);
        return services.Replace(ServiceDescriptor.Singleton<ISessionBackingStore>(provider => new PostgreSqlSessionStore(options, provider.GetRequiredService<TimeProvider>())));
    }
}
