// What all processes of a simulated machine share: the clock, the rules for new connections, what is in files, and how deep steps are nested, since all of
// them run in one thread. What one process has of the machine, its descriptors above all, is in SimulatedWorld.

using System.Net;

namespace Millrace.Tests.Simulation;

/// <summary>What several descriptors may stand for, of one process or of several; what goes with it ends with the last of them.</summary>
internal interface IOpenFile
{
    int References { get; set; }

    /// <summary>The last reference has gone.</summary>
    void End();
}

internal sealed class SimulatedMachine(SeededRandom random)
{
    private int _sockets;

    public SeededRandom Random => random;

    public long NowMs { get; set; } = 1_000_000;

    public int ReceiveCapacityMax { get; set; } = 256 * 1024;

    public int SendCapacityMax { get; set; } = 256 * 1024;

    public int? PeerCapacityMax { get; set; }

    public int UnsentStep { get; set; } = 1;

    public SocketFaults Faults { get; } = new();

    public Dictionary<int, byte[]?> Files { get; } = [];

    /// <summary>How many steps are in the middle of others.</summary>
    public int Depth { get; set; }

    /// <summary>The first thing that went wrong.</summary>
    public string? Failure { get; set; }

    /// <summary>A process is about to make a system call: others may do something before it, and it may end there. Null: nothing happens.</summary>
    public Action<Simulation, string>? AtSystemCall { get; set; }

    /// <summary>One step of anybody, for a process that blocks or sleeps; null: there is one process, which knows.</summary>
    public Action? RandomStep { get; set; }

    /// <summary>Reads what happens in each process; null: each keeps its own.</summary>
    public Action<Simulation, string, long, long>? Tracer { get; set; }

    public SimulatedSocket Connect(SimulatedListener listener, IPAddress? from = null)
    {
        if (listener.Refuses)
        {
            throw new InvalidOperationException("Connection refused.");
        }

        SimulatedSocket socket = MakeSocket(listener.IsTcp);
        listener.Enqueue(socket, from ?? IPAddress.Loopback);
        return socket;
    }

    /// <summary>A connection whose other end is nobody's yet.</summary>
    public SimulatedSocket MakeSocket(bool isTcp) => new(++_sockets, isTcp, ReceiveCapacityMax, SendCapacityMax, random, Faults)
    {
        PeerCapacity = isTcp ? PeerCapacityMax ?? SendCapacityMax / 2 : 0,
    };

    /// <summary>One reference less.</summary>
    public static void Release(IOpenFile file)
    {
        if (--file.References == 0)
        {
            file.End();
        }
    }
}
