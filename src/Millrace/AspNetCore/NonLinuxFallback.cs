// What UseMillrace() means on systems other than Linux: Kestrel stays for http://, and fastcgi:// is refused with a
// sentence rather than with whatever Kestrel makes of it.

using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Observe;

namespace Millrace.AspNetCore;

/// <summary>Says once, at the start, that the server of the host is not Millrace.</summary>
internal sealed class NonLinuxFallback(ILoggerFactory loggers, IServiceProvider services) : IHostedService
{
    public Task StartAsync(CancellationToken cancellationToken)
    {
        Check(services.GetService<IConfiguration>()?["urls"]);
        new Log(loggers.CreateLogger("Millrace")).NotLinux();
        return Task.CompletedTask;
    }

    /// <exception cref="PlatformNotSupportedException">One of the addresses is FastCGI's.</exception>
    internal static void Check(string? addresses)
    {
        string? fastCgi = addresses?.Split(';', StringSplitOptions.TrimEntries)
            .FirstOrDefault(static address => address.StartsWith("fastcgi://", StringComparison.OrdinalIgnoreCase));
        if (fastCgi is not null)
        {
            throw new PlatformNotSupportedException($"Cannot listen on {fastCgi}: Millrace runs on Linux only. Use an http:// address here; Kestrel serves it.");
        }
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
