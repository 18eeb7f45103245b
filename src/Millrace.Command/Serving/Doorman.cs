// Stands at the addresses of an application that has no process: who connects waits in the queue, and rings. Connections that its processes had when they ended, each
// idle, are kept as they are (a descriptor, and what the protocol knows of it), and ring when something comes on them; whoever serves next takes them. Nothing is read.
// What they are the application has chosen, and a close of one may wait for as long as it likes: that is no business of the lock, and until it is done no more are taken.

using Millrace.Command.Running;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class Doorman : IDisposable
{
    /// <summary>Connections that are kept; those beyond are closed, as they would be with a process that ends.</summary>
    public const int KeptMax = 256;

    private const int TakenAtOnce = 64;      // somebody may send for ever, and others wait for the lock
    private const int GiveAgainMs = 5;
    private static readonly TimeSpan s_givePatience = TimeSpan.FromSeconds(5);

    private readonly AppListeners _listeners;
    private readonly Action _ring;
    private readonly Lock _lock = new();
    private readonly List<Doorbell.Watching> _watched = [];
    private readonly Dictionary<int, Kept> _kept = [];
    private Doorbell.Watching? _channel;        // null: it is not to ring, or nobody has come through it
    private bool _isOver;
    private bool _isPaused;

    /// <param name="listeners">Whose; it disposes of them behind this.</param>
    /// <param name="ring">Somebody is at the door. More than once, on any thread.</param>
    /// <exception cref="MillraceStartException">No descriptor is left for it.</exception>
    public Doorman(AppListeners listeners, Action ring)
    {
        (_listeners, _ring) = (listeners, ring);
        try
        {
            foreach (int listening in listeners.Listening)
            {
                _watched.Add(Doorbell.Watch(listening, _ => ring()));
            }
            _watched.Add(Doorbell.Watch(listeners.Takes, TakeAll));
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    private sealed record Kept(Doorbell.Watching Watching, byte[] Knowledge);

    /// <summary>One that goes on with connections that were kept before.</summary>
    /// <exception cref="MillraceStartException">No descriptor is left for it.</exception>
    public static Doorman Resume(AppListeners listeners, Action ring, IReadOnlyList<KeptState> kept)
    {
        var doorman = new Doorman(listeners, ring);
        List<int> refused = [];
        lock (doorman._lock)
        {
            foreach (var its in kept)
            {
                _ = SystemCalls.Fcntl(its.Descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC);
                if (!doorman.TryKeep(its.Descriptor, its.Knowledge))
                {
                    refused.Add(its.Descriptor);
                }
            }
        }
        doorman.Close(refused);
        return doorman;
    }

    /// <summary>What it keeps, for another program: from now on nothing that is kept is let go of, until it is to go on.</summary>
    public IReadOnlyList<KeptState> Pause()
    {
        lock (_lock)
        {
            _isPaused = true;
            return [.. _kept.Select(static kept => new KeptState(kept.Key, kept.Value.Knowledge))];
        }
    }

    /// <summary>No other program has come.</summary>
    public void GoOn()
    {
        lock (_lock)
        {
            _isPaused = false;
            _watched.ForEach(static watched => watched.GoOn());
            foreach (var its in _kept.Values)
            {
                its.Watching.GoOn();
            }
        }
    }

    /// <summary>Gives what it has kept to whoever takes it by now, and goes.</summary>
    public async Task LeaveAsync()
    {
        var kept = End();
        long giveUpAt = Environment.TickCount64 + (long)s_givePatience.TotalMilliseconds;
        foreach (var (descriptor, its) in kept)
        {
            while (_listeners.Give(descriptor, its.Knowledge) == KernelResult.Again && Environment.TickCount64 < giveUpAt)
            {
                await Task.Delay(GiveAgainMs);
            }
            _listeners.Closer.Close([descriptor]);      // now: its client is not to wait for the others to be given before he sees its end
        }
    }

    public void Dispose() => _listeners.Closer.Close(End().Keys);

    // From here on nothing is watched.
    private Dictionary<int, Kept> End()
    {
        lock (_lock)
        {
            _isOver = true;
            _watched.ForEach(static watched => watched.Dispose());
            _watched.Clear();
            Dictionary<int, Kept> kept = new(_kept);
            _kept.Clear();
            foreach (var its in kept.Values)
            {
                its.Watching.Dispose();
            }
            return kept;
        }
    }

    private void TakeAll(Doorbell.Watching channel)
    {
        Span<byte> knowledge = stackalloc byte[MovedConnection.SizeMax];
        List<int> refused = [];
        lock (_lock)
        {
            _channel = channel;
            if (_isOver || _listeners.Closer.TryFollow(LookAtChannel))       // whoever has followed him waits as well
            {
                return;
            }
            int result = 0;
            for (int i = 0; i < TakenAtOnce && !_isOver && !_isPaused && result is >= 0 or KernelResult.Refused; i++)
            {
                result = default(LinuxKernel).Take(channel.Descriptor, knowledge, out int length, out int[] strange);
                refused.AddRange(strange);
                if (result >= 0 && (_kept.Count >= KeptMax || !Headroom.Has(0) || !TryKeep(result, knowledge[..length].ToArray())))
                {
                    refused.Add(result);
                }
            }
            _channel = result == KernelResult.Broken ? null : channel;      // it would ring without end
        }
        Close(refused);
    }

    private void Close(List<int> descriptors)
    {
        _listeners.Closer.Close(descriptors);
        lock (_lock)
        {
            if (_isOver || _listeners.Closer.TryFollow(LookAtChannel))
            {
                return;
            }
        }
        LookAtChannel();
    }

    private void LookAtChannel()
    {
        lock (_lock)
        {
            if (!_isOver && !_isPaused)
            {
                _channel?.GoOn();
            }
        }
    }

    private bool TryKeep(int descriptor, byte[] knowledge)
    {
        try
        {
            _kept[descriptor] = new Kept(Doorbell.Watch(descriptor, Look), knowledge);
            return true;
        }
        catch (MillraceStartException)
        {
            return false;
        }
    }

    // Something has come, or its client has gone, which is nobody's business.
    private void Look(Doorbell.Watching watching)
    {
        bool isOver;
        lock (_lock)
        {
            if (_isPaused || !_kept.TryGetValue(watching.Descriptor, out var kept) || kept.Watching != watching)
            {
                return;
            }
            isOver = !HasSomething(watching.Descriptor);
            if (isOver)
            {
                _kept.Remove(watching.Descriptor);
                watching.Dispose();
            }
        }
        if (isOver)
        {
            Close([watching.Descriptor]);
            return;
        }
        _ring();
    }

    private static unsafe bool HasSomething(int descriptor)
    {
        byte first;
        return SystemCalls.Receive(descriptor, &first, 1, SystemCalls.MSG_PEEK | SystemCalls.MSG_DONTWAIT) > 0;
    }
}
