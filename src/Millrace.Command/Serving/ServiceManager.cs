// What systemd is told of the daemon, over the socket that it names in the environment (sd_notify(3), sd_watchdog_enabled(3)). Where there is none nothing is said.

using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class ServiceManager : IDisposable
{
    /// <summary>Of the unit that `millrace unit` prints: systemd before 254 does not say itself that it keeps any.</summary>
    public const string StoreVariable = "MILLRACE_FDSTORE";

    private const long MicrosecondsMax = 1_000_000_000_000_000;      // more than a TimeSpan holds is no number either

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan s_signMin = TimeSpan.FromMilliseconds(2);
    private static readonly TimeSpan s_signMax = TimeSpan.FromDays(1);

    private readonly Lock _lock = new();
    private readonly Action<string> _say;
    private readonly Socket? _socket;
    private readonly Timer? _watchdog;
    private bool _isStanding;       // somebody has waited for it in vain
    private bool _isSaid;
    private string? _unsaid;        // how the daemon is, which it does not know yet

    /// <param name="path">Its socket; '@' at the begin is a NUL. Null or empty: there is none.</param>
    /// <param name="patience">How long it may be without a sign of life; null: it wants none.</param>
    /// <param name="say">Is told, once, that it does not read.</param>
    public ServiceManager(string? path, TimeSpan? patience, Action<string> say)
    {
        _say = say;
        if (path is not ['/' or '@', _, ..])
        {
            return;
        }
        try
        {
            _socket = UnixSocket.New(SocketType.Dgram);
            _socket.Blocking = false;
            _socket.Connect(new UnixDomainSocketEndPoint(path[0] == '@' ? '\0' + path[1..] : path));
        }
        catch (Exception error) when (error is SocketException or ArgumentException)
        {
            return;     // it has gone, or never was where no socket can be: what cannot be said is left unsaid
        }
        if (patience is { } its)
        {
            _watchdog = new Timer(_ => Tell("WATCHDOG=1", Kind.Sign), null, TimeSpan.Zero, its / 2 < s_signMin ? s_signMin : its / 2 > s_signMax ? s_signMax : its / 2);
        }
    }

    /// <param name="say">Is told, once, that it does not read.</param>
    public static ServiceManager OfProcess(Action<string> say)
    {
        string? process = Environment.GetEnvironmentVariable("WATCHDOG_PID");
        bool isMeant = process is null || process == Environment.ProcessId.ToString(CultureInfo.InvariantCulture);
        bool isWanted = long.TryParse(Environment.GetEnvironmentVariable("WATCHDOG_USEC"), NumberStyles.None, CultureInfo.InvariantCulture, out long microseconds) && microseconds > 0;
        return new ServiceManager(Environment.GetEnvironmentVariable("NOTIFY_SOCKET"), isMeant && isWanted ? TimeSpan.FromMicroseconds(Math.Min(microseconds, MicrosecondsMax)) : null, say)
        {
            Keeps = int.TryParse(Environment.GetEnvironmentVariable("FDSTORE") ?? Environment.GetEnvironmentVariable(StoreVariable), NumberStyles.None, CultureInfo.InvariantCulture, out int most) && most > 0,
        };
    }

    /// <summary>Whether it keeps descriptors (FileDescriptorStoreMax= of the unit).</summary>
    public bool Keeps { get; private init; }

    /// <summary>Has it keep descriptors until the next start, and however they look meanwhile.</summary>
    public void Store(string name, ReadOnlySpan<int> descriptors)
    {
        if (Keeps && _socket is { Connected: true })
        {
            int[] its = [.. descriptors];
            Tell(() => DescriptorPassing.TrySend((int)_socket.Handle, Encoding.UTF8.GetBytes($"FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), its), Kind.Fact);
        }
    }

    /// <summary>Has it close all of a name.</summary>
    public void Forget(string name)
    {
        if (Keeps)
        {
            Tell($"FDSTOREREMOVE=1\nFDNAME={name}", Kind.Fact);
        }
    }

    /// <summary>The start is over, or the reading of a changed file.</summary>
    /// <param name="status">How it is, for `systemctl status`.</param>
    public void TellReady(string status) => Tell("READY=1\nSTATUS=" + status, Kind.State);

    /// <summary>A file is being read again. The time lets it tell this from an answer to an earlier request.</summary>
    public void TellReloading() => Tell(string.Create(CultureInfo.InvariantCulture, $"RELOADING=1\nMONOTONIC_USEC={Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1_000_000)}"), Kind.State);

    public void TellStopping() => Tell("STOPPING=1\nSTATUS=stopping: requests that are under way are answered first", Kind.State);

    public void Dispose()
    {
        _watchdog?.Dispose();
        _socket?.Dispose();
    }

    private enum Kind
    {
        /// <summary>Of life; there is another one soon.</summary>
        Sign,

        /// <summary>How the daemon is: it counts until there is another one.</summary>
        State,

        Fact,
    }

    private void Tell(string what, Kind kind)
    {
        if (_socket is { Connected: true })
        {
            Tell(() => _socket.Send(Encoding.UTF8.GetBytes(what)) > 0, kind, what);
        }
    }

    // Its queue may be full, and whoever is to read it stand still: a daemon that waits for it serves no more, and does not end. So a sign of life waits for nothing, and of the rest
    // one, until something has been read again; the state of the daemon is told then.
    private void Tell(Func<bool> send, Kind kind, string what = "")
    {
        bool isSaid;
        if (!_lock.TryEnter(kind == Kind.Sign ? TimeSpan.Zero : Timeout.InfiniteTimeSpan))
        {
            return;     // one is being told something: that is a sign as well
        }
        try
        {
            _unsaid = kind == Kind.State ? what : _unsaid;
            try
            {
                bool isSent = IsReady(kind != Kind.Sign && !_isStanding);
                if (isSent && _unsaid is { } state)
                {
                    isSent = _socket!.Send(Encoding.UTF8.GetBytes(state)) > 0;
                    _unsaid = null;
                    isSent = kind == Kind.State || IsReady(kind != Kind.Sign);
                }
                isSent = isSent && (kind == Kind.State || send());
                _isStanding = !isSent && (_isStanding || kind != Kind.Sign);
            }
            catch (SocketException error) when (error.SocketErrorCode == SocketError.WouldBlock)
            {
                _isStanding |= kind != Kind.Sign;
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException)
            {
                return;     // it has gone, or we go
            }
            isSaid = _isSaid || !_isStanding;
            _isSaid |= _isStanding;
        }
        finally
        {
            _lock.Exit();
        }
        if (!isSaid)
        {
            _say("the service manager does not read what it is told (NOTIFY_SOCKET), and may take this daemon for hung, or not ready. All goes on without it");
        }
    }

    private bool IsReady(bool isWaitedFor) => _socket!.Poll(isWaitedFor ? (int)s_patience.TotalMicroseconds : 0, SelectMode.SelectWrite);
}
