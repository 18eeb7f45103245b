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
    private bool _isStanding;
    private bool _isSaid;

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
            _socket = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified) { Blocking = false };
            _socket.Connect(new UnixDomainSocketEndPoint(path[0] == '@' ? '\0' + path[1..] : path));
        }
        catch (Exception error) when (error is SocketException or ArgumentException)
        {
            return;     // it has gone, or never was where no socket can be: what cannot be said is left unsaid
        }
        if (patience is { } its)
        {
            _watchdog = new Timer(_ => Tell("WATCHDOG=1", isSign: true), null, TimeSpan.Zero, its / 2 < s_signMin ? s_signMin : its / 2 > s_signMax ? s_signMax : its / 2);
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
            _ = DescriptorPassing.TrySend((int)_socket.Handle, Encoding.UTF8.GetBytes($"FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), descriptors);
        }
    }

    /// <summary>Has it close all of a name.</summary>
    public void Forget(string name)
    {
        if (Keeps)
        {
            Tell($"FDSTOREREMOVE=1\nFDNAME={name}");
        }
    }

    /// <summary>The start is over, or the reading of a changed file.</summary>
    /// <param name="status">How it is, for `systemctl status`.</param>
    public void TellReady(string status) => Tell("READY=1\nSTATUS=" + status);

    /// <summary>A file is being read again. The time lets it tell this from an answer to an earlier request.</summary>
    public void TellReloading() => Tell(string.Create(CultureInfo.InvariantCulture, $"RELOADING=1\nMONOTONIC_USEC={Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1_000_000)}"));

    public void TellStopping() => Tell("STOPPING=1\nSTATUS=stopping: requests that are under way are answered first");

    public void Dispose()
    {
        _watchdog?.Dispose();
        _socket?.Dispose();
    }

    // Its queue may be full, and whoever is to read it stand still: a daemon that waits for it serves no more, and does not end.
    private void Tell(string what, bool isSign = false)
    {
        if (_socket is not { Connected: true })
        {
            return;
        }
        bool wasStanding;
        lock (_lock)
        {
            wasStanding = _isStanding;
            try
            {
                int patience = _isStanding || isSign ? 0 : (int)s_patience.TotalMicroseconds;
                _isStanding = !_socket.Poll(patience, SelectMode.SelectWrite);
                _ = _isStanding ? 0 : _socket.Send(Encoding.UTF8.GetBytes(what));
            }
            catch (SocketException error) when (error.SocketErrorCode == SocketError.WouldBlock)
            {
                _isStanding = true;
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException)
            {
                return;     // it has gone, or we go
            }
        }
        if (_isStanding && !_isSaid && (wasStanding || !isSign))
        {
            _isSaid = true;
            _say("the service manager does not read what it is told (NOTIFY_SOCKET), and may take this daemon for hung, or not ready. All goes on without it");
        }
    }
}
