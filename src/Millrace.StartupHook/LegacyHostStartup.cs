// Road 2: WebHostBuilder and WebHost.CreateDefaultBuilder, which announce nothing. Their Build configures the hosting
// start-up assemblies after the app's own registrations, so the server can be replaced there. Generic hosts run hosting
// start-ups too, but before their server is registered; for them this does nothing, road 1 serves them.

using Microsoft.AspNetCore.Hosting;

[assembly: HostingStartup(typeof(Millrace.StartupHooks.LegacyHostStartup))]

namespace Millrace.StartupHooks;

/// <summary>Found by ASP.NET Core through the assembly attribute; not for use in code.</summary>
public sealed class LegacyHostStartup : IHostingStartup
{
    /// <summary>Replaces the server of a legacy web host.</summary>
    /// <param name="builder">The host being built.</param>
    public void Configure(IWebHostBuilder builder)
    {
#pragma warning disable ASPDEPR004, ASPDEPR008 // The obsolete builder is exactly the one this road is for.
        if (builder is WebHostBuilder)
#pragma warning restore ASPDEPR004, ASPDEPR008
        {
            LegacyHostGuard.WasAsked = true;
            builder.ConfigureServices(ServerSwap.Apply);
        }
    }
}
