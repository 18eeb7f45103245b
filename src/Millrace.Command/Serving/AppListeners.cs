// What the daemon listens on for an application: opened once, inherited by every process of it, closed when the application is stopped. As
// long as one of them is open nobody is refused: who connects while no process accepts waits in its queue. The channel between its generations
// lives as long.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed partial class AppListeners : IDisposable
{
    private readonly List<ListenSocket> _sockets = [];

    private readonly int _gives;
    private readonly int _takes;

    private const int DescriptorsEach = 8;
    private const int PassedOnMax = 64;      // of each queue: those who come while it is looked through are told to others
    private const int GiveAgainMs = 5;
    private const int UnsentMax = 32 * 1024;
    private const int AcceptingMax = 4;      // threads that may have come to wait
    private static readonly TimeSpan s_givePatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_filePatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_passPatience = TimeSpan.FromSeconds(7);

    private readonly Lock _lock = new();
    private bool _isClosed;
    private bool _isPaused;
    private int _accepting;
    private int _inHand;        // connections that are accepted here, and are not yet given

    private unsafe AppListeners()
    {
        int* pair = stackalloc int[2];
        if (SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair) < 0)
        {
            throw new MillraceStartException($"A channel between processes cannot be made: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
        }
        (_gives, _takes) = (pair[0], pair[1]);
    }

    private AppListeners(ListenersState state, IEnumerable<ListenSocket> sockets)
    {
        (_gives, _takes) = (state.Gives, state.Takes);
        _sockets.AddRange(sockets);
    }

    /// <summary>Closes what has come from the application.</summary>
    public ForeignCloser Closer { get; private init; } = null!;

    /// <summary>Under which name they are kept for the next daemon (<see cref="StoredSockets.KeyOf"/>), as it was when they were opened.</summary>
    public required string StoredAs
    {
        get;
        init
        {
            field = value;
            Closer = new ForeignCloser(value[..value.LastIndexOf('.')]);
        }
    }

    /// <summary>For another program, which goes on with them.</summary>
    public ListenersState State => new([.. _sockets.Select(AppInstance.StateOf)], _gives, _takes, StoredAs);

    /// <summary>Those that were opened before.</summary>
    /// <param name="state">What has been written of them.</param>
    /// <param name="storedAs">See <see cref="StoredAs"/>; where that has not been written.</param>
    /// <exception cref="MillraceStartException">They are not what is said of them.</exception>
    public static AppListeners Resume(ListenersState state, string storedAs)
    {
        int[] channel = [state.Gives, state.Takes];
        if (!Array.TrueForAll(channel, IsChannel))
        {
            throw new MillraceStartException("The channel between its generations is none.");
        }
        var files = FilesOf(state.Sockets);
        ListenSocket[] sockets = [.. state.Sockets.Select((socket, i) => Take(socket.Descriptor, ListenAddress.Parse(socket.Address), files[i]))];
        Array.ForEach(channel, static end => _ = SystemCalls.Fcntl(end, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC));
        return new AppListeners(state, sockets) { StoredAs = state.StoredAs ?? storedAs };
    }

    // One that its processes have shut down is opened anew for the next of them, as in the program that was there before.
    private static ListenSocket Take(int descriptor, ListenAddress address, SocketFile? file) =>
        ResumedListeners.TryTake(descriptor, address, file) ?? ResumedListeners.TryTakeShut(descriptor, address) ?? throw new MillraceStartException($"Nobody listens at {address.Url} any more.");

    // Where their file system does not answer the sockets are taken over without them: they go on, and their files stay when they are closed.
    private static SocketFile?[] FilesOf(IReadOnlyList<ListenerState> sockets)
    {
        SocketFile?[] Find() => [.. sockets.Select(static socket => socket.File is { } file ? ResumedListeners.FileOf(ListenAddress.Parse(socket.Address), file) : null)];
        if (sockets.All(static socket => socket.File is null))
        {
            return new SocketFile?[sockets.Count];
        }
        try
        {
            return new PatientLook(s_filePatience).AtAsync(string.Join(", ", sockets.Select(static socket => socket.Address)), Find, CancellationToken.None, static late => Array.ForEach(late, static file => Leave(file, removes: false))).GetAwaiter().GetResult();
        }
        catch (StandstillException)
        {
            return new SocketFile?[sockets.Count];
        }
    }

    private static void Leave(SocketFile? file, bool removes)
    {
        _ = removes ? file?.RemoveIfSame() : 0;
        file?.Dispose();
        file?.Directory.Dispose();
    }

    /// <summary>Whether a descriptor can be an end of the channel between generations.</summary>
    public static bool IsChannel(int descriptor) => SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_TYPE) == SystemCalls.SOCK_SEQPACKET;

    /// <summary>As they were asked for, with real ports and without what only concerns the listener.</summary>
    public IReadOnlyList<string> Shown => [.. _sockets.Select(static socket => socket.Address.Url).Distinct()];

    /// <summary>Those that are listened on.</summary>
    public IEnumerable<int> Listening => _sockets.Select(static socket => socket.Descriptor);

    /// <summary>The end of the channel at which connections are given.</summary>
    public int Gives => _gives;

    /// <summary>That at which they are taken.</summary>
    public int Takes => _takes;

    /// <param name="settings">Whose.</param>
    /// <param name="folders">Where the daemon makes its own.</param>
    /// <param name="look">By whom its addresses are looked at: one for each application, of which no more than one waits.</param>
    /// <param name="which">Which of them; null: all.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="MillraceStartException">One of them cannot be listened on; none is open then.</exception>
    /// <exception cref="CommandFailure">The folder of shared sockets cannot be made.</exception>
    /// <exception cref="StandstillException">The folder of a socket does not answer.</exception>
    public static async Task<AppListeners> OpenAsync(AppSettings settings, DaemonFolders folders, PatientLook look, Func<string, bool>? which, CancellationToken ct)
    {
        using var givenUp = CancellationTokenSource.CreateLinkedTokenSource(ct);
        var noMore = givenUp.Token;
        try
        {
            return await look.AtAsync(string.Join(", ", settings.Urls), () => Open(settings, folders, which, noMore), ct, static late => late.Dispose());
        }
        finally
        {
            await givenUp.CancelAsync();
        }
    }

    /// <summary>The same, for as long as it may take.</summary>
    public static AppListeners Open(AppSettings settings, DaemonFolders folders, Func<string, bool>? which = null, CancellationToken givenUp = default)
    {
        if (settings.SharedUrls.Count > 0)
        {
            _ = folders.Shared;
        }
        return Headroom.Open(DescriptorsEach + settings.Urls.Count, () => OpenAll(settings, folders.Stored, which), givenUp);
    }

    private static AppListeners OpenAll(AppSettings settings, StoredSockets stored, Func<string, bool>? which)
    {
        string key = StoredSockets.KeyOf(settings);
        var listeners = stored.TakeChannel(key) is { } channel ? new AppListeners(new ListenersState([], channel.Gives, channel.Takes), []) { StoredAs = key } : new AppListeners() { StoredAs = key };
        try
        {
            foreach (var address in settings.Urls.Where(which ?? (static _ => true)).SelectMany(ListenAddress.ParseList))
            {
                var kept = stored.Take(key, address);
                listeners._sockets.AddRange(kept.Count > 0 ? kept : ListenSockets.Open(address, loops: 1));
            }
            if (settings.IsRouter)
            {
                listeners._sockets.ForEach(BoundUnsent);
            }
            return listeners;
        }
        catch
        {
            listeners.Dispose();
            throw;
        }
    }

    // A connection of a router takes no megabytes of an answer ahead of its client, as the kernel would let it: it would hear of room for more only when a third of that had gone, and an
    // application whose answer waits for so long takes its client for one that has stopped reading. What has been sent and is on its way is not bound by this, so that speed is not.
    // Accepted connections have it from the socket that is listened on. Unix sockets and inherited ones of another kind have no such option, and need none.
    private static void BoundUnsent(ListenSocket socket) =>
        _ = SystemCalls.SetSocketOption(socket.Descriptor, SystemCalls.IPPROTO_TCP, SystemCalls.TCP_NOTSENT_LOWAT, UnsentMax);

    /// <summary>
    /// Gives who waits in the queues to whoever takes connections. Of each that comes the kernel tells one of those that wait for him (EPOLLEXCLUSIVE): when that
    /// process has ended before it could accept him, nobody else knows.
    /// </summary>
    public async Task PassOnAsync()
    {
        // Whether accept(2) waits is a flag of the socket, which is the application's too, and its processes may change it at any moment: so no lock is held over that, on a
        // thread of its own, and nobody waits for it who has anything else to do.
        await Task.WhenAny(BeginToPassOn(), Task.Delay(s_passPatience));
    }

    private Task BeginToPassOn()
    {
        try
        {
            return Task.Factory.StartNew(PassOn, CancellationToken.None, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
        }
        catch (Exception error) when (error is OutOfMemoryException or TaskSchedulerException or ThreadStartException)
        {
            return Task.Run(PassOn);        // no thread is left: on one that is there
        }
    }

    private void PassOn()
    {
        long giveUpAt = Environment.TickCount64 + (long)s_givePatience.TotalMilliseconds;
        foreach (var socket in _sockets)
        {
            for (int i = 0; i < PassedOnMax && TryAccept(socket, out int descriptor, out var its); i++)
            {
                while (its is not null && TryGive(its, descriptor) == KernelResult.Again && Environment.TickCount64 < giveUpAt)
                {
                    Thread.Sleep(GiveAgainMs);
                }
                long call = ForeignCalls.Begin(Closer.Where);
                default(LinuxKernel).Close(descriptor, reset: false);
                ForeignCalls.End(call);
                Interlocked.Decrement(ref _inHand);
            }
        }
    }

    /// <summary>Nobody is passed on any more, and nobody is on his way here: another program may take over.</summary>
    public async Task PauseAsync()
    {
        lock (_lock)
        {
            _isPaused = true;
        }
        long giveUpAt = Environment.TickCount64 + (long)s_passPatience.TotalMilliseconds;
        while (Volatile.Read(ref _inHand) > 0 && Environment.TickCount64 < giveUpAt)        // a thread that waits for somebody to come has nobody
        {
            await Task.Delay(GiveAgainMs);
        }
    }

    /// <summary>No other program has come.</summary>
    public void GoOn()
    {
        lock (_lock)
        {
            _isPaused = false;
        }
    }

    // Nobody: he may not connect here.
    private bool TryAccept(ListenSocket socket, out int descriptor, out MovedConnection? its)
    {
        Span<byte> peer = stackalloc byte[128];
        its = null;
        descriptor = KernelResult.Again;
        int copy;
        lock (_lock)
        {
            copy = _isClosed || _isPaused || _accepting >= AcceptingMax ? -1 : SystemCalls.Fcntl(socket.Descriptor, SystemCalls.F_DUPFD_CLOEXEC, 3);
            if (copy < 0)
            {
                return false;
            }
            _accepting++;
            Interlocked.Increment(ref _inHand);
        }
        descriptor = default(LinuxKernel).Accept(copy, isFirst: true, peer, out int length);
        _ = SystemCalls.Close(copy);
        lock (_lock)
        {
            _accepting--;
        }
        if (descriptor < 0)
        {
            Interlocked.Decrement(ref _inHand);
            return false;
        }
        peer = peer[..length];
        var address = socket.Address;
        if (address.Allow?.Contains(peer) ?? true)
        {
            its = new MovedConnection(address.Protocol, address.IsTcp, Knowledge: 0, IdleUntilMs: 0, address.IsTcp ? peer.ToArray() : []) { IsUncounted = address.IsUncounted };
        }
        return true;
    }

    /// <summary>Gives a connection to whoever takes it.</summary>
    /// <param name="descriptor">Of the connection; open here as before.</param>
    /// <param name="knowledge">What its protocol knows of it.</param>
    /// <returns><see cref="KernelResult.Again"/>: there is no room at the moment.</returns>
    public int Give(int descriptor, byte[] knowledge)
    {
        lock (_lock)
        {
            return _isClosed ? KernelResult.Broken : default(LinuxKernel).Give(_gives, descriptor, knowledge);
        }
    }

    private int TryGive(MovedConnection its, int descriptor)
    {
        lock (_lock)
        {
            return _isClosed ? KernelResult.Broken : its.Give(default(LinuxKernel), _gives, descriptor);
        }
    }

    /// <summary>Closes them here; somebody else has them, and goes on.</summary>
    public void Leave()
    {
        lock (_lock)
        {
            _sockets.ForEach(static socket => socket.Leave());
            Close();        // of the sockets nothing is open any more
        }
    }

    /// <summary>Closes them, and does not wait for a file system that does not answer, where their files are to be removed.</summary>
    public async Task CloseAsync(PatientLook look)
    {
        var files = End();
        int isBegun = files.Length > 0 ? 0 : 1;
        int RemoveAll()
        {
            isBegun = 1;
            Array.ForEach(files, static file => Leave(file, removes: true));
            return 0;
        }
        try
        {
            _ = isBegun == 0 ? await look.AtAsync(string.Join(", ", Shown), RemoveAll, CancellationToken.None) : 0;
        }
        catch (StandstillException)
        {
            Array.ForEach(Volatile.Read(ref isBegun) == 0 ? files : [], static file => Leave(file, removes: false));
        }
    }

    public void Dispose() => Array.ForEach(End(), static file => Leave(file, removes: true));

    // The files are still there, and nobody listens.
    private SocketFile[] End()
    {
        lock (_lock)
        {
            SocketFile[] files = _isClosed ? [] : [.. _sockets.Select(static socket => socket.TakeFile()).OfType<SocketFile>()];
            Close();
            return files;
        }
    }

    private void Close()
    {
        if (_isClosed)
        {
            return;
        }
        _isClosed = true;
        _sockets.ForEach(End);
        ForeignDescriptor.Close([_gives, _takes]);      // with what is on its way there, whatever that is
    }

    // A thread that waits in accept(2), here or in what has answered for the application, would keep the socket, and the address, for good.
    private static void End(ListenSocket socket)
    {
        if (socket.Descriptor >= 0 && socket.Address.Kind != EndPointKind.Inherited)
        {
            _ = SystemCalls.Shutdown(socket.Descriptor, SystemCalls.SHUT_RDWR);
        }
        if (socket.Address.Kind == EndPointKind.Unix)
        {
            ForeignDescriptor.Close(socket);        // with who waits in its queue, and with what he has sent: the application has the socket too, and its options
            return;
        }
        socket.Dispose();
    }
}
