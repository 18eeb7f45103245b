// The sources of one loop: what it watches besides listeners and its connections (LoopSource.cs). Their tokens lie among those of listeners, so that an event of a
// connection costs nothing for them:
//
//   63        62       61 ... 32     31 ... 0
//   listener  source   generation    slot

using Millrace.Platform;

namespace Millrace.Loops;

internal sealed class LoopSources<TKernel>(EventLoop<TKernel> loop, Poller poller)
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

        Close(source);
        return false;
    }

    /// <summary>Begins or ends to wait until more can be sent.</summary>
    public void Rewatch(LoopSource source, bool writing) => loop.Kernel.Rewatch(poller, source.Descriptor, source.Token, writing);

    /// <summary>Closes its descriptor. Nothing more is heard of it, but for what has been posted.</summary>
    public void Close(LoopSource source)
    {
        int slot = (int)(uint)source.Token;
        _sources[slot] = null;
        _free.Push(slot);
        loop.Kernel.Close(source.Descriptor, reset: false, mayLinger: false);
        source.Forget();
    }

    // ---- the loop's ----

    public bool OnEvent(LoopDriver driver, ulong token, Readiness ready)
    {
        if (_sources[(int)(uint)token] is { } source && source.Token == token)
        {
            try
            {
                source.OnEvent(driver, ready);
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
            source.OnPosted(driver);
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
