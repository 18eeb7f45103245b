// Carries out a RunRequest around the real server of one host: puts the asked-for addresses in place at the last moment
// before it starts, when the app's code has had its say, and reports how that went.

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Options;
using Millrace.AspNetCore;

namespace Millrace.StartupHooks;

internal sealed class RunServer(IServer server, IOptions<KestrelServerOptions> kestrel) : IServer
{
    // A process may build several hosts. The first that starts has the addresses that were asked for, and is reported; the others
    // have their own. When it stops, a host that is built in its place may have them.
    private static RunServer? s_first;

    public IFeatureCollection Features => server.Features;

    public async Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken cancellationToken)
        where TContext : notnull
    {
        if (Interlocked.CompareExchange(ref s_first, this, null) is not null)
        {
            await server.StartAsync(application, cancellationToken);
            return;
        }
        var feature = Features.Get<IServerAddressesFeature>()!;
        var addresses = feature.Addresses;
        bool isAsApp = false;
        bool isServed = RunRequest.ChannelDescriptor >= 0;
        if ((isServed ? RunRequest.Copied(RunRequest.Addresses ?? []) : RunRequest.Addresses) is { } wanted)
        {
            var endpoints = RunRequest.AddressesAreChosen ? OwnEndpoints() : [];
            isAsApp = endpoints.Count > 0;
            addresses.Clear();
            foreach (string address in isAsApp ? [.. endpoints, .. wanted.Where(static address => !IsHttp(address))] : wanted)
            {
                addresses.Add(address);
            }
            feature.PreferHostingUrls = true;
        }
        try
        {
            await server.StartAsync(application, cancellationToken);
        }
        catch (Exception error) when (RunRequest.HasReportPipe && error is MillraceStartException or FormatException or OptionsValidationException)
        {
            GiveUp(error, isAsApp);
        }
        catch
        {
            Leave();
            throw;
        }
        if (isServed)
        {
            addresses.Clear();
            foreach (string address in RunRequest.ShownAddresses)
            {
                addresses.Add(address);
            }
            await ServedHosts.JoinAsync((HostedServer)server);
        }
        RunRequest.ReportAddresses(addresses);
    }

    public async Task StopAsync(CancellationToken cancellationToken)
    {
        await server.StopAsync(cancellationToken);
        Leave();
    }

    public void Dispose()
    {
        server.Dispose();
        Leave();
    }

    private void Leave()
    {
        ServedHosts.Leave((HostedServer)server);
        Interlocked.CompareExchange(ref s_first, null, this);
    }

    // Where the app tells Kestrel to listen. The server says it where that cannot be read.
    private IReadOnlyList<string> OwnEndpoints()
    {
        try
        {
            return KestrelEndpoints.Of(kestrel.Value).Http;
        }
        catch (Exception)
        {
            return [];
        }
    }

    private static bool IsHttp(string address) => address.StartsWith("http:", StringComparison.OrdinalIgnoreCase);

    // The message tells the user what to do; the stack trace of an app he did not write would only bury it.
    [DoesNotReturn]
    private static void GiveUp(Exception error, bool isAsApp)
    {
        RunRequest.ReportFailure(error.Message, isAddress: error is MillraceStartException && !isAsApp);
        Environment.Exit(1);
    }
}
