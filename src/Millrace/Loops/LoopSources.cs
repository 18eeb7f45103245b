// The sources of one loop: what it watches besides listeners and its connections (LoopSource.cs). Their tokens lie among those of listeners, so that an event of a
// connection costs nothing for them:
//
//   63        62       61 ... 32     31 ... 0
//   listener  source   generation    slot

using Millrace.Platform;

namespace Millrace.Loops;

/// <summary>What those who do not know the kernel see of it.</summary>
internal abstract class LoopSources
{
    /// <summary>Has the loop call <see cref="LoopSource.OnPosted"/>, or, where it has ended, <see cref="LoopSource.OnLoopEnded"/>. Any thread.</summary>
    public abstract void Post(LoopSource source);

    /// <summary>Watches a descriptor, edge-triggered, for reading; it stays its owner's, who does not close it before <see cref="Forget"/>. False: the kernel has no room.</summary>
    public abstract bool TryWatch(LoopSource source, int descriptor);

    /// <summary>Nothing more is heard of it, but for what has been posted.</summary>
    public abstract void Forget(LoopSource source);

    /// <summary>Runs code of the application, such as what goes on of a handler, as it is always run on a loop: under the monitor's eyes, or, where that blocks often, elsewhere. Does not throw.</summary>
    /// <returns>False: the loop was taken over; touch nothing.</returns>
    public abstract bool RunCode(LoopDriver driver, Action<object?> action, object? state);
}

internal sealed class LoopSources<TKernel>(EventLoop<TKernel> loop, Poller poller) : LoopSources
    where TKernel : struct, IKernel
{
    /// <summary>In a token that looks like that of a listener.</summary>
    public const ulong Flag = 1UL << 62;

    private const ulong ListenerFlag = 1UL << 63;
    private const uint GenerationMask = 0x3FFF_FFFF;

    private readonly List<LoopSource?> _sources = [];
    private readonly Stack<int> _free = new();
    private uint _generation;

    /// <summary>Watches a descriptor, edge-triggered, for reading; it is the loop's from here on. False: the kernel has no room, and the descriptor is closed.</summary>
    public bool Watch(LoopSource source, int descriptor)
    {
        if (TryWatch(source, descriptor))
        {
            return true;
        }

        loop.Kernel.Close(descriptor, reset: false, mayLinger: false);
        return false;
    }

    public override bool TryWatch(LoopSource source, int descriptor)
    {
        if (!_free.TryPop(out int slot))
        {
            slot = _sources.Count;
            _sources.Add(null);
            _ = _free.EnsureCapacity(_sources.Capacity);     // a source is closed whatever memory there is then
        }

        _generation = (_generation + 1) & GenerationMask;
        source.Open(descriptor, ListenerFlag | Flag | ((ulong)_generation << 32) | (uint)slot);
        _sources[slot] = source;
        if (loop.Kernel.Watch(poller, descriptor, source.Token, writing: false))
        {
            return true;
        }

        Forget(source);
        return false;
    }

    /// <summary>Begins or ends to wait until more can be sent.</summary>
    public void Rewatch(LoopSource source, bool writing) => loop.Kernel.Rewatch(poller, source.Descriptor, source.Token, writing);

    /// <summary>Closes its descriptor. Nothing more is heard of it, but for what has been posted.</summary>
    public void Close(LoopSource source)
    {
        int descriptor = source.Descriptor;
        Forget(source);
        loop.Kernel.Close(descriptor, reset: false, mayLinger: false);
    }

    public override void Forget(LoopSource source)
    {
        int slot = (int)(uint)source.Token;
        _sources[slot] = null;
        _free.Push(slot);
        source.Forget();
    }

    public override void Post(LoopSource source) => loop.Post(source);

    public override bool RunCode(LoopDriver driver, Action<object?> action, object? state)
    {
        if (loop.Services.IsShortOfThreads || loop.Dispatch.UsesWorkers(loop.NowMs))
        {
            loop.Services.RunUserCode(action, state);
            return true;
        }

        driver.ForgetInterruption();
        long mark = loop.Enter(null);
        try
        {
            action(state);
        }
        catch (Exception error)
        {
            loop.Services.Log.ContinuationFailed(error);
        }

        driver.RestoreContext();
        return loop.Leave(mark);
    }

    // ---- the loop's ----

    /// <summary>The loop has ended.</summary>
    public void End() => _sources.ForEach(static source => source?.OnLoopEnded());

    public bool OnEvent(LoopDriver driver, ulong token, Readiness ready)
    {
        if (_sources[(int)(uint)token] is { } source && source.Token == token)
        {
            try
            {
                return source.OnEvent(driver, ready);
            }
            catch (Exception error)
            {
                Contain(source, error);
            }
        }

        return true;
    }

    public bool OnPosted(LoopDriver driver, LoopSource source)
    {
        try
        {
            return source.OnPosted(driver);
        }
        catch (Exception error)
        {
            Contain(source, error);
        }

        return true;
    }

    private void Contain(LoopSource source, Exception error)
    {
        loop.Services.Log.InternalError(error);
        source.EndByFault();
    }
}
