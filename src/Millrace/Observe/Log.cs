// Every message of the server: one catalogue. A message says what happened, where, and what to do.
//
// A logger is code of the application's. What a handler's own turn has to say is said in it, with its scopes and under the eyes
// of the monitor, as is what the start and the end of the server have to say on their callers' threads. What loops and the
// monitor have to say goes through a queue (LogQueue): neither waits for a logger.

using Microsoft.Extensions.Logging;

namespace Millrace.Observe;

internal sealed partial class Log
{
    private readonly ILogger _logger;
    private readonly LogQueue _queue;
    private long _lastConnectionLimit;
    private long _lastDescriptors;
    private long _lastThread;
    private long _lastRefusal;
    private long _lastPath;

    /// <param name="logger">The application's.</param>
    /// <param name="run">Where the queue is worked through; null: on the thread pool.</param>
    public Log(ILogger logger, Action<Action>? run = null)
    {
        _logger = new HarmlessLogger(logger);
        _queue = new LogQueue(MessagesDropped, run);
    }

    /// <summary>Waits until the logger has what was queued so far, but not for longer than this.</summary>
    public Task FlushAsync(TimeSpan limit) => _queue.FlushAsync(limit);

    // ---- queued ----

    /// <summary>A fault of the server itself. Never throws: it may be that there is no memory.</summary>
    public void InternalError(Exception error)
    {
        try
        {
            AddInternal(error);
        }
        catch (OutOfMemoryException)
        {
            _queue.Drop();
        }
    }

    private void AddInternal(Exception error) => _queue.Add(() => Internal(error));

    public void DriversExhausted(int limit) => _queue.Add(() => Drivers(limit));

    /// <summary>At most once in ten seconds.</summary>
    public void ConnectionLimitReached(int limit)
    {
        if (MaySay(ref _lastConnectionLimit))
        {
            _queue.Add(() => ConnectionLimit(limit));
        }
    }

    /// <summary>At most once in ten seconds.</summary>
    public void DescriptorsExhausted(string address)
    {
        if (MaySay(ref _lastDescriptors))
        {
            _queue.Add(() => Descriptors(address));
        }
    }

    /// <summary>At most once in ten seconds.</summary>
    public void AcceptingRefused(string address)
    {
        if (MaySay(ref _lastRefusal))
        {
            _queue.Add(() => NoAccepting(address));
        }
    }

    /// <summary>At most once in ten seconds. Never throws: it may be that there is no memory.</summary>
    public void ThreadRefused(int drivers)
    {
        if (MaySay(ref _lastThread))
        {
            try
            {
                AddRefused(drivers);
            }
            catch (OutOfMemoryException)
            {
                _queue.Drop();
            }
        }
    }

    private void AddRefused(int drivers) => _queue.Add(() => NoThread(drivers));

    /// <summary>At most once in ten seconds.</summary>
    public void PathDisagrees()
    {
        if (MaySay(ref _lastPath))
        {
            _queue.Add(OtherPath);
        }
    }

    private static bool MaySay(ref long last)
    {
        long now = Environment.TickCount64;
        long before = Volatile.Read(ref last);
        return (before == 0 || now - before > 10_000) && Interlocked.CompareExchange(ref last, now, before) == before;
    }

    // ---- said at once ----

    [LoggerMessage(1, LogLevel.Error, "Request {RequestId}: an unhandled exception was thrown by the application.")]
    public partial void HandlerFailed(string requestId, Exception error);

    [LoggerMessage(2, LogLevel.Debug, "Request {RequestId} was refused with {Status}: {Reason}")]
    public partial void BadRequest(string requestId, int status, string reason);

    [LoggerMessage(3, LogLevel.Error, "A callback or continuation of the application failed outside of its request.")]
    public partial void ContinuationFailed(Exception error);

    [LoggerMessage(4, LogLevel.Error, "An OnCompleted callback of request {RequestId} failed.")]
    public partial void CallbackFailed(string requestId, Exception error);

    [LoggerMessage(5, LogLevel.Warning, "All {Limit} connections are in use (MaxConnections); new ones are closed. Raise the limit or shorten the front server's keep-alive.")]
    private partial void ConnectionLimit(int limit);

    [LoggerMessage(6, LogLevel.Warning, "Out of file descriptors for connections while accepting on {Address}; accepting pauses 100 ms at a time. Raise LimitNOFILE (systemd) or ulimit -n; where those are high, the machine itself has no descriptor (fs.file-max) or no memory left for sockets.")]
    private partial void Descriptors(string address);

    [LoggerMessage(7, LogLevel.Warning, "All {Limit} threads for handlers are busy (DriversMax), and a handler blocks another: requests wait until one of them has ended. Raise DriversMax or make the handlers asynchronous.")]
    private partial void Drivers(int limit);

    [LoggerMessage(26, LogLevel.Warning, "The system refuses another thread beside {Count} that drive loops and run handlers: handlers wait for one of these, and so does a loop whose handler blocks. Allow the process more threads (ulimit -u, TasksMax, pids.max) or memory, set DriversMax lower, or make the handlers asynchronous.")]
    private partial void NoThread(int count);

    [LoggerMessage(27, LogLevel.Error, "The system accepts nobody on {Address}: another process that has the socket too has shut it down, or a security policy (seccomp, AppArmor, SELinux) forbids accept. Accepting on all addresses pauses 100 ms at a time. Restart what has opened the socket, or mend the policy.")]
    private partial void NoAccepting(string address);

    [LoggerMessage(8, LogLevel.Warning, "{Address} can be reached from other machines.")]
    public partial void WideAddress(string address);

    [LoggerMessage(25, LogLevel.Warning, "{Address} is the socket {Path}, which every user of this machine may open, and whoever can speak FastCGI to it is trusted. Narrow its mode (systemd: SocketMode=0660).")]
    public partial void OpenSocket(string address, string path);

    [LoggerMessage(9, LogLevel.Warning, "Stopping: connections that were left after {Seconds} s and have been cut: {Count} (DrainTimeout, or a shorter time that the host has given).")]
    public partial void DrainCut(int count, double seconds);

    [LoggerMessage(10, LogLevel.Debug, "Listening on {Address} with {Loops} event loops.")]
    public partial void Listening(string address, int loops);

    [LoggerMessage(12, LogLevel.Warning, "Millrace runs on Linux only: Kestrel stays the server of this application.")]
    public partial void NotLinux();

    [LoggerMessage(13, LogLevel.Warning, "Request {RequestId} was slow: {Method} {Route} took {TotalMs} ms, of which {WaitingMs} ms waiting for its turn, {RunningMs} ms running and {WritingMs} ms waiting for the peer to take the answer (SlowRequestThreshold).")]
    public partial void SlowRequest(string requestId, string method, string route, long totalMs, long waitingMs, long runningMs, long writingMs);

    [LoggerMessage(14, LogLevel.Information, "Stopped in {Seconds} s: {Ended} requests ended during the drain, {Cut} were cut when its time was over (DrainTimeout).")]
    public partial void Drained(double seconds, long ended, long cut);

    [LoggerMessage(15, LogLevel.Warning, "A request was refused with 400 (cgi-path-disagrees): the web server has chosen its rules for another path (MILLRACE_PATH) than that of the target. Where it rewrites paths on purpose, take MILLRACE_PATH out of its configuration.")]
    private partial void OtherPath();

    [LoggerMessage(21, LogLevel.Warning, "Set for Kestrel, and without effect here: {Settings}.")]
    public partial void KestrelSettingsWithoutEffect(string settings);

    [LoggerMessage(22, LogLevel.Warning, "What the application sets for Kestrel could not be read, and has no effect here.")]
    public partial void KestrelSettingsUnreadable(Exception error);

    [LoggerMessage(23, LogLevel.Warning, "Listening on the endpoints that are set for Kestrel ({Endpoints}), which override the addresses {Addresses}.")]
    public partial void EndpointsOverride(string endpoints, string addresses);

    [LoggerMessage(24, LogLevel.Warning, "The configuration section Millrace has the key {Key}, which is no option. The nearest is {Nearest}.")]
    public partial void UnknownOption(string key, string nearest);

    [LoggerMessage(28, LogLevel.Warning, "The application believes X-Forwarded-For and -Proto of whoever connects (ForwardedHeadersOptions without KnownProxies and KnownIPNetworks; ASPNETCORE_FORWARDEDHEADERS_ENABLED makes them so), and over FastCGI ({Address}) that is each client. Address and scheme are right there without these headers: clear the variable, or name the proxies.")]
    public partial void BelievesClients(string address);

    [LoggerMessage(11, LogLevel.Error, "Internal error on a connection; it was closed. Please report this.")]
    private partial void Internal(Exception error);

    [LoggerMessage(16, LogLevel.Warning, "{Count} messages of the server were dropped: the logger takes them too slowly, and {Limit} wait already.")]
    private partial void MessagesDropped(long count, int limit);

    [LoggerMessage(17, LogLevel.Information, "{Signal} has come, and does nothing here. An application that handles it itself takes it before the server starts (PosixSignalRegistration); SIGTERM stops the application.")]
    public partial void SignalIgnored(string signal);

    [LoggerMessage(18, LogLevel.Information, "SIGHUP has come: the terminal has gone. The application stops, as for SIGTERM.")]
    public partial void TerminalGone();
}
