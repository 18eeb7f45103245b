// Whoever always has more to say keeps the thread on which it was first heard: as long as bytes are there nothing is waited for. In a router that is the thread by which
// other connections hear as well (DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS), so that turns are taken.

using System.Runtime.CompilerServices;

namespace Millrace.Connector;

internal struct Turns
{
    private const int ReadsMax = 64;        // about a mebibyte

    private int _reads;

    /// <summary>Counts a read. Every so often it is to be awaited on another thread, and lets this one go.</summary>
    public bool IsOver => ++_reads % ReadsMax == 0;

    /// <summary>Goes on behind whatever else there is to do.</summary>
    public static ConfiguredTaskAwaitable LetOthers() => Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
}
