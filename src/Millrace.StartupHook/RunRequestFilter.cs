// Carries out a RunRequest in one host. Start-up filters run after the host has filled in the app's addresses and before
// its server starts: the one moment at which they can be replaced for every kind of host.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.Extensions.Hosting;

namespace Millrace.StartupHooks;

internal sealed class RunRequestFilter(IServer server, IHostApplicationLifetime lifetime) : IStartupFilter
{
    public Action<IApplicationBuilder> Configure(Action<IApplicationBuilder> next)
    {
        if (server.Features.Get<IServerAddressesFeature>() is { } listening)
        {
            if (RunRequest.Addresses is { } wanted)
            {
                listening.Addresses.Clear();
                foreach (string address in wanted)
                {
                    listening.Addresses.Add(address);
                }
            }
            lifetime.ApplicationStarted.Register(() => RunRequest.Report(listening.Addresses));
        }
        return next;
    }
}
