// What an application of the daemon is at (HostedApp.cs has the picture).

namespace Millrace.Command.Serving;

internal enum AppState
{
    /// <summary>Its first generation is on its way.</summary>
    Starting,

    /// <summary>A generation serves.</summary>
    Serving,

    /// <summary>It has no process; the first who connects starts it.</summary>
    Idle,

    /// <summary>A generation serves, and the next is on its way.</summary>
    Deploying,

    /// <summary>It has not started, and will be tried again.</summary>
    Waiting,

    /// <summary>It is not tried any more, or somebody has asked for this; its addresses answer 503.</summary>
    Held,

    /// <summary>Its addresses are closed.</summary>
    Stopped,
}
