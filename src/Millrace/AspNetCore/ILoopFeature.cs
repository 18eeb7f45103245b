using Millrace.Loops;

namespace Millrace.AspNetCore;

/// <summary>The loop that has the connection of a request, for what goes with this server and waits for sockets of its own.</summary>
internal interface ILoopFeature
{
    LoopSources Sources { get; }
}
