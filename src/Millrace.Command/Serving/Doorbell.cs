// Says when something can be read from a descriptor, and reads nothing: one thread for all that nobody serves at the moment.

using System.Collections.Concurrent;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed unsafe class Doorbell
{
    private const int EventsMax = 64;

    private static readonly Lazy<Doorbell> s_shared = new(static () => new Doorbell());

    private readonly ConcurrentDictionary<ulong, Watching> _watched = [];
    private readonly int _epoll;
    private long _last;

    private Doorbell()
    {
        _epoll = SystemCalls.EpollCreate(SystemCalls.EPOLL_CLOEXEC);
        if (_epoll < 0)
        {
            throw new MillraceStartException($"Nobody can wait for connections: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
        }
        new Thread(Run) { IsBackground = true, Name = "doorbell" }.Start();
    }

    /// <summary>Rings when something can be read, or the other end has gone: once, and again whenever it is asked to go on.</summary>
    /// <param name="descriptor">Stays open until the answer is disposed of.</param>
    /// <param name="ring">Any thread.</param>
    /// <exception cref="MillraceStartException">It cannot be watched.</exception>
    public static Watching Watch(int descriptor, Action<Watching> ring)
    {
        var bell = s_shared.Value;
        var watching = new Watching(bell, descriptor, (ulong)Interlocked.Increment(ref bell._last), ring);
        bell._watched[watching.Id] = watching;
        if (bell.Control(SystemCalls.EPOLL_CTL_ADD, watching) < 0)
        {
            string why = SystemCalls.Describe(SystemCalls.Errno);
            bell._watched.TryRemove(watching.Id, out _);
            throw new MillraceStartException($"Nobody can wait for connections: {why}.");
        }
        return watching;
    }

    private int Control(int operation, Watching watching) =>
        SystemCalls.EpollControl(_epoll, operation, watching.Descriptor, SystemCalls.EPOLLIN | SystemCalls.EPOLLRDHUP | SystemCalls.EPOLLONESHOT, watching.Id);

    private void Run()
    {
        byte* events = stackalloc byte[EventsMax * SystemCalls.EpollEventSize];
        while (true)
        {
            int count = SystemCalls.EpollWait(_epoll, events, EventsMax, -1);
            for (int i = 0; i < count; i++)
            {
                if (_watched.TryGetValue(SystemCalls.EpollData(events, i), out var watching))
                {
                    ThreadPool.UnsafeQueueUserWorkItem(static its => its.Ring(), watching, preferLocal: false);
                }
            }
        }
    }

    internal sealed class Watching(Doorbell bell, int descriptor, ulong id, Action<Watching> ring) : IDisposable
    {
        public int Descriptor { get; } = descriptor;

        public ulong Id { get; } = id;

        public void Ring() => ring(this);

        /// <summary>It is to ring again.</summary>
        public void GoOn()
        {
            if (bell._watched.ContainsKey(Id))
            {
                _ = bell.Control(SystemCalls.EPOLL_CTL_MOD, this);
            }
        }

        /// <summary>It rings no more, but for once if it is ringing now.</summary>
        public void Dispose()
        {
            if (bell._watched.TryRemove(Id, out _))
            {
                _ = bell.Control(SystemCalls.EPOLL_CTL_DEL, this);
            }
        }
    }
}
