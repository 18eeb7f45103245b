// The application that is flooded: stock (AddSession), lru (the least recently used goes, nothing is sealed) or millrace, with the same memory for sessions.

using System.Net;
using Microsoft.Extensions.Options;
using Millrace.Sessions;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Bench.Sessions;

internal static class SessionApp
{
    public const int BudgetBytes = 16 << 20;

    /// <summary>The address that a request is to count for.</summary>
    public const string ClientField = "X-Client";

    public static async Task RunAsync(string kind, string url)
    {
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.SetMinimumLevel(LogLevel.Warning);
        Add(builder.Services, kind);
        WebApplication app = builder.Build();
        app.Use(static (context, next) =>
        {
            if (IPAddress.TryParse(context.Request.Headers[ClientField], out IPAddress? address))
            {
                context.Connection.RemoteIpAddress = address;
            }
            return next(context);
        });
        app.UseSession();
        app.MapGet("/hello", static () => "Hello, World!");
        app.MapGet("/count", static (HttpContext context) =>
        {
            int visits = (context.Session.GetInt32("n") ?? 0) + 1;
            context.Session.SetInt32("n", visits);
            return visits.ToString(System.Globalization.CultureInfo.InvariantCulture);
        });
        app.MapGet("/read", static (HttpContext context) => context.Session.GetInt32("n")?.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "-");
        app.MapGet("/memory", static () => GC.GetTotalMemory(forceFullCollection: true).ToString(System.Globalization.CultureInfo.InvariantCulture));
        app.Urls.Add(url);
        await app.RunAsync();
    }

    private static void Add(IServiceCollection services, string kind)
    {
        if (kind == "stock")
        {
            services.AddDistributedMemoryCache(static options => options.SizeLimit = BudgetBytes);
            services.AddSession();
            return;
        }
        if (kind == "lru")
        {
            services.AddSingleton(static provider => new MemorySessionStore(
                provider.GetRequiredService<IOptions<MillraceSessionOptions>>().Value, provider.GetRequiredService<SpentSeals>(), provider.GetRequiredService<SessionCounters>(),
                provider.GetRequiredService<SessionLog>(), TimeProvider.System, PolicyShape.Lru));
        }
        services.AddMillraceSession(options =>
        {
            options.BudgetBytes = BudgetBytes;
            options.SealedBytesMax = kind == "lru" ? 0 : options.SealedBytesMax;
        });
    }
}
