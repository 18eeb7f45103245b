// A server as one of several processes: it inherits the listening sockets and both ends of the channel, takes connections and gives them away, stops, and ends
// or crashes, as Engine does it at the daemon's word.

using System.Runtime.CompilerServices;
using Millrace.Listeners;
using Millrace.Loops;

namespace Millrace.Tests.Simulation;

/// <summary>What a process has from whoever started it.</summary>
/// <param name="Machine">The machine it runs on.</param>
/// <param name="Number">Which process it is, from 1.</param>
/// <param name="Listeners">For FastCGI, and for HTTP.</param>
/// <param name="Channel">Through which connections move.</param>
internal sealed record Inheritance(SimulatedMachine Machine, int Number, SimulatedListener[] Listeners, SimulatedChannel Channel);

internal sealed partial class Simulation
{
    private const int QueueMax = 4_096;

    private Task? _stopping;
    private int _gives;

    /// <summary>Which process it is, from 1; 0: there are no others.</summary>
    public int Number => _inherited?.Number ?? 0;

    /// <summary>It has been told to give its connections away.</summary>
    public bool IsMoving { get; private set; }

    /// <summary>It is in the middle of a system call, while others do something.</summary>
    public bool IsInCall { get; set; }

    public bool HasEnded => World.HasEnded;

    /// <summary>Connections that have gone from here to others.</summary>
    public long Moved => Loops.Sum(static loop => loop.Loop.Counters.Moved);

    void IKernelObserver.OnSystemCall(string call) => Machine.AtSystemCall?.Invoke(this, call);

    /// <summary>Engine.TakeFromAsync; the other end is inherited as well.</summary>
    public void TakeConnections()
    {
        _gives = World.Inherit(_inherited!.Channel.Gives);
        var takes = new ListenSocket(World.Inherit(_inherited.Channel.Takes), ListenAddress.Parse("http://unix:/run/channel.sock"), default, loop: -1) { IsChannel = true };
        _channels = [takes];
        Post(loop => loop.AddListener(takes));
    }

    /// <summary>Engine.MoveTo.</summary>
    public void GiveConnections()
    {
        IsMoving = true;
        Trace("move", Number);
        int watching = Loops.Length;
        Post(loop =>
        {
            loop.BeginMove(_gives);
            if (--watching == 0)
            {
                Array.ForEach([.. _listening, .. _channels], socket => loop.Post(new AcceptBacklog(socket, socket.IsChannel ? 0 : QueueMax, static _ => false, Leave)));
            }
        });
    }

    // What Engine.StopAsync begins with; the sweeps that follow are the daemon's steps.
    private Task BeginStop() => _stopping ??= new ListenerShutdown<SimulatedKernel>(
        [.. Loops.Select(static each => each.Loop)], [.. _listening, .. _channels], QueueMax, static _ => { }, static _ => false, Leave).Begin();

    /// <summary>A sweep, as an engine that stops makes it every 20 ms.</summary>
    public void Sweep() => Post(static loop => loop.DrainConnections());

    /// <summary>It has been told to stop, and has nothing left.</summary>
    public bool MayExit => _stopping is { IsCompleted: true } && Services.Connections == 0 && PoolCount == 0 && !IsInCall && !Array.Exists(Loops, static loop => loop.IsBusy || loop.HasWork);

    // Others have the socket too. As ListenSocket.Leave, whose system call is a real one.
    private void Leave(ListenSocket socket)
    {
        if (Interlocked.Exchange(ref NumberOf(socket), -1) is >= 0 and int descriptor)
        {
            World.CloseInherited(descriptor);
        }
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_descriptor")]
    private static extern ref int NumberOf(ListenSocket socket);

    /// <summary>What is left must be nothing but the event queues and the end of the channel at which it gives.</summary>
    public void Exit()
    {
        Require(Services.Connections == 0, $"{Services.Connections} connections are still counted");
        Require(Array.TrueForAll(Loops, static loop => loop.Loop.ConnectionCount == 0), "a loop still counts connections");
        Require(World.Open == Loops.Length + 1, $"{World.Open} descriptors are open");
        Require(Handler.Running == 0, $"{Handler.Running} exchanges have not come back");
        Require(Drivers.Idle == Drivers.Count - Loops.Length, "a driver has not come back");
        Require(Loops.Sum(static loop => loop.Loop.Counters.Accepted - loop.Loop.Counters.Closed - loop.Loop.Counters.Moved) == 0, "not as many connections were closed, or given away, as accepted");
        Trace("exit", Number);
        World.End(isCrash: false);
    }

    private void Require(bool holds, string otherwise)
    {
        if (!holds)
        {
            Violated("at its exit " + otherwise);
        }
    }

    /// <summary>Nothing of it runs from here on, and the kernel closes what it had.</summary>
    public void Crash()
    {
        Trace("crash", Number);
        World.End(isCrash: true);
        _pool.Clear();
        _timers.Clear();
    }
}
