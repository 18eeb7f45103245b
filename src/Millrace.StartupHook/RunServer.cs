// Carries out a RunRequest around the real server of one host: puts the asked-for addresses in place at the last moment
// before it starts, when the app's code has had its say, and reports how that went.

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.StartupHooks;

internal sealed class RunServer(IServer server) : IServer
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
        var addresses = Features.Get<IServerAddressesFeature>()!.Addresses;
        if (RunRequest.Addresses is { } wanted)
        {
            addresses.Clear();
            foreach (string address in wanted)
            {
                addresses.Add(address);
            }
        }
        try
        {
            await server.StartAsync(application, cancellationToken);
        }
        catch (Exception error) when (RunRequest.HasReportPipe && error is MillraceStartException or FormatException or ArgumentOutOfRangeException)
        {
            GiveUp(error);
        }
        catch
        {
            Leave();
            throw;
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

    private void Leave() => Interlocked.CompareExchange(ref s_first, null, this);

    // The message tells the user what to do; the stack trace of an app he did not write would only bury it.
    [DoesNotReturn]
    private static void GiveUp(Exception error)
    {
        // An option outside its range is the last; the runtime appends the parameter's name, which the sentence holds already.
        string reason = error is ArgumentException { ParamName: { } name } ? error.Message.Replace($" (Parameter '{name}')", "", StringComparison.Ordinal) : error.Message;
        RunRequest.ReportFailure(reason, isAddress: error is MillraceStartException);
        Environment.Exit(1);
    }
}
