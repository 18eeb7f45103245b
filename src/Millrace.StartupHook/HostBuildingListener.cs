// Road 1: generic hosts (WebApplication in all its forms, Host.CreateDefaultBuilder, HostApplicationBuilder). Each announces
// itself with the diagnostic event HostBuilding, whose payload is the host's builder; a service callback added there runs
// after all of the app's own, so it has the last word on the server.

using System.Diagnostics;

namespace Millrace.StartupHooks;

internal sealed class HostBuildingListener : IObserver<DiagnosticListener>, IObserver<KeyValuePair<string, object?>>
{
    private const string Source = "Microsoft.Extensions.Hosting";
    private const string HostBuilding = "HostBuilding";

    // Made by every web host while it is built; on road 2 after the hosting start-ups have been asked.
    private const string WebHost = "Microsoft.AspNetCore";

    public static void Subscribe() => DiagnosticListener.AllListeners.Subscribe(new HostBuildingListener());

    public void OnNext(DiagnosticListener value)
    {
        if (value.Name == Source)
        {
            value.Subscribe(this, static (name, _, _) => name == HostBuilding);
        }
        else if (value.Name == WebHost && RunsOnAspNetCore())
        {
            LegacyHostGuard.Check();
        }
    }

    public void OnNext(KeyValuePair<string, object?> value)
    {
        // An app without the ASP.NET Core framework has no server to swap, and the types named in ServerSwap do not exist in it.
        if (value.Key == HostBuilding && value.Value is { } builder && RunsOnAspNetCore())
        {
            ServerSwap.OnGenericHost(builder);
        }
    }

    public void OnCompleted()
    {
    }

    public void OnError(Exception error)
    {
    }

    private static bool RunsOnAspNetCore() => Type.GetType("Microsoft.AspNetCore.Hosting.Server.IServer, Microsoft.AspNetCore.Hosting.Server.Abstractions") is not null;
}
