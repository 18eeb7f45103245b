// Carries out a RunRequest around the real server of one host: puts the asked-for addresses in place at the last moment
// before it starts, when the app's code has had its say, and reports how that went.

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.StartupHooks;

internal sealed class RunServer(IServer server) : IServer
{
    public IFeatureCollection Features => server.Features;

    public async Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken cancellationToken)
        where TContext : notnull
    {
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
        RunRequest.ReportAddresses(addresses);
    }

    public Task StopAsync(CancellationToken cancellationToken) => server.StopAsync(cancellationToken);

    public void Dispose() => server.Dispose();

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
