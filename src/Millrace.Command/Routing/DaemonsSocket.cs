// The private socket on which the daemon asks a process whose program is the command. Its file is the daemon's alone (mode 600); what comes by any other address is a visitor's, whatever it says.

using Microsoft.AspNetCore.Http;
using Millrace.AspNetCore;
using Millrace.Listeners;

namespace Millrace.Command.Routing;

/// <param name="path">What it is bound to; null: there is none.</param>
internal sealed class DaemonsSocket(string? path)
{
    private const string UrlsVariable = "ASPNETCORE_URLS";

    /// <summary>That of this process: the one address that it has until it is told to accept. Before the host is built.</summary>
    public static DaemonsSocket OfProcess()
    {
        try
        {
            return new DaemonsSocket(ListenAddress.ParseList(Environment.GetEnvironmentVariable(UrlsVariable) ?? "") is [{ Kind: EndPointKind.Inherited } its, ..] ? SocketName.Of(its.InheritedDescriptor)?.Path : null);
        }
        catch (FormatException)
        {
            return new DaemonsSocket(null);     // not started by a daemon
        }
    }

    /// <summary>Whether a request has come by it.</summary>
    public bool Has(HttpContext context) => path is not null && (context.Features as HostedFeatures)?.LocalPath == path;
}
