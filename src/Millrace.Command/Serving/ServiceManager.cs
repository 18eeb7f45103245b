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

    private readonly Socket? _socket;
    private readonly Timer? _watchdog;

    /// <param name="path">Its socket; '@' at the begin is a NUL. Null or empty: there is none.</param>
    /// <param name="patience">How long it may be without a sign of life; null: it wants none.</param>
    public ServiceManager(string? path, TimeSpan? patience)
    {
        if (path is not ['/' or '@', _, ..])
        {
            return;
        }
        try
        {
            _socket = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified);
            _socket.Connect(new UnixDomainSocketEndPoint(path[0] == '@' ? '\0' + path[1..] : path));
        }
        catch (SocketException)
        {
            return;     // it has gone: what cannot be said is left unsaid
        }
        if (patience is { } its)
        {
            _watchdog = new Timer(_ => Tell("WATCHDOG=1"), null, TimeSpan.Zero, its / 2);
        }
    }

    public static ServiceManager OfProcess()
    {
        string? process = Environment.GetEnvironmentVariable("WATCHDOG_PID");
        bool isMeant = process is null || process == Environment.ProcessId.ToString(CultureInfo.InvariantCulture);
        bool isWanted = long.TryParse(Environment.GetEnvironmentVariable("WATCHDOG_USEC"), NumberStyles.None, CultureInfo.InvariantCulture, out long microseconds) && microseconds > 0;
        return new ServiceManager(Environment.GetEnvironmentVariable("NOTIFY_SOCKET"), isMeant && isWanted ? TimeSpan.FromMicroseconds(microseconds) : null)
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

    private void Tell(string what)
    {
        try
        {
            _ = _socket is { Connected: true } ? _socket.Send(Encoding.UTF8.GetBytes(what)) : 0;
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // It has gone, or we go.
        }
    }
}
