// The channel through which connections move from one loop, or one server, to another (SOCK_SEQPACKET with SCM_RIGHTS). What is in it belongs to nobody.

using Millrace.Platform;

namespace Millrace.Tests.Simulation;

/// <summary>What event queues watch level-triggered: a queue in which connections wait.</summary>
internal interface IWatchedQueue
{
    void Watch(SimulatedPoller poller, ulong token, bool isExclusive);

    void Unwatch(SimulatedPoller poller);
}

/// <summary>One of two processes' ends; those who have the other are told when the last who has this one has gone.</summary>
internal sealed class ChannelEnd(SimulatedChannel channel, bool takes) : IOpenFile
{
    public SimulatedChannel Channel => channel;

    public int References { get; set; }

    void IOpenFile.End()
    {
        channel.HasEnded = true;
        if (takes)
        {
            channel.Drop();
        }
    }
}

internal sealed class SimulatedChannel : IWatchedQueue
{
    private readonly Queue<(SimulatedSocket Socket, byte[] Knowledge)> _waiting = new();
    private readonly List<Registration> _watchers = [];
    private bool _hasEnded;

    public SimulatedChannel() => (Gives, Takes) = (new ChannelEnd(this, takes: false), new ChannelEnd(this, takes: true));

    /// <summary>Where the ends are in different processes.</summary>
    public ChannelEnd Gives { get; }

    public ChannelEnd Takes { get; }

    /// <summary>Draws who of those that share a wake-up gets it.</summary>
    public SeededRandom? Random { get; init; }

    public int Descriptor { get; set; }

    public int Capacity { get; set; }

    public bool IsFull => _waiting.Count >= Capacity;

    /// <summary>Connections that are on their way.</summary>
    public int Count => _waiting.Count;

    /// <summary>One of the ends is closed everywhere.</summary>
    public bool HasEnded
    {
        get => _hasEnded;
        set
        {
            _hasEnded = value;
            _watchers.ForEach(static watcher => watcher.Raise());
        }
    }

    public void Enqueue(SimulatedSocket socket, byte[] knowledge)
    {
        socket.References++;
        _waiting.Enqueue((socket, knowledge));
        _ = _watchers.RemoveAll(static watcher => watcher.Poller.HasEnded);
        _watchers.ForEach(static watcher =>
        {
            if (!watcher.IsExclusive)
            {
                watcher.Raise();
            }
        });
        List<Registration> sharing = _watchers.FindAll(static watcher => watcher is { IsExclusive: true, Poller.HasEnded: false });
        if (sharing.Count > 0)
        {
            sharing[Random!.Below(sharing.Count)].Raise();
        }
    }

    /// <summary>Nobody can take what is on its way any more: it ends there (unix(7)).</summary>
    public void Drop()
    {
        while (_waiting.TryDequeue(out (SimulatedSocket Socket, byte[] Knowledge) lost))
        {
            lost.Socket.HasLostOwner = true;
            SimulatedMachine.Release(lost.Socket);
        }
    }

    public bool TryDequeue(out SimulatedSocket socket, out byte[] knowledge)
    {
        bool any = _waiting.TryDequeue(out (SimulatedSocket Socket, byte[] Knowledge) first);
        (socket, knowledge) = first;
        return any;
    }

    public void Watch(SimulatedPoller poller, ulong token, bool isExclusive)
    {
        var registration = new Registration(poller, token, isLevel: true, () => _waiting.Count > 0 || _hasEnded ? Readiness.Read : Readiness.None) { IsExclusive = isExclusive };
        _watchers.Add(registration);
        if (_waiting.Count > 0 || _hasEnded)
        {
            registration.Raise();
        }
    }

    public void Unwatch(SimulatedPoller poller)
    {
        Registration? registration = _watchers.Find(each => each.Poller == poller);
        registration?.Remove();
        _watchers.Remove(registration!);
    }
}
