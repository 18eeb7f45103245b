// The channel through which connections move from one loop, or one server, to another (SOCK_SEQPACKET with SCM_RIGHTS). What is in it belongs to nobody.

using Millrace.Platform;

namespace Millrace.Tests.Simulation;

/// <summary>What event queues watch level-triggered: a queue in which connections wait.</summary>
internal interface IWatchedQueue
{
    void Watch(SimulatedPoller poller, ulong token);

    void Unwatch(SimulatedPoller poller);
}

internal sealed class SimulatedChannel : IWatchedQueue
{
    private readonly Queue<(SimulatedSocket Socket, byte[] Knowledge)> _waiting = new();
    private readonly List<Registration> _watchers = [];
    private bool _hasEnded;

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
        _waiting.Enqueue((socket, knowledge));
        _watchers.ForEach(static watcher => watcher.Raise());
    }

    public bool TryDequeue(out SimulatedSocket socket, out byte[] knowledge)
    {
        bool any = _waiting.TryDequeue(out (SimulatedSocket Socket, byte[] Knowledge) first);
        (socket, knowledge) = first;
        return any;
    }

    public void Watch(SimulatedPoller poller, ulong token)
    {
        var registration = new Registration(poller, token, isLevel: true, () => _waiting.Count > 0 || _hasEnded ? Readiness.Read : Readiness.None);
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
