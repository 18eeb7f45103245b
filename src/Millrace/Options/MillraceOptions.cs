// Every limit of the server: its name, its default and its range. Read from the configuration section "Millrace"
// (AspNetCore/OptionsSection.cs). Options that Kestrel knows too remember that they have been set: what is said to Kestrel
// stands in for those that have not (AspNetCore/KestrelSettings.cs).

using System.Runtime.CompilerServices;

namespace Millrace;

/// <summary>Options of a server. Defaults are safe for a server that faces hostile peers; times are given as <see cref="TimeSpan"/>.</summary>
public sealed class MillraceOptions
{
    /// <summary>Name of the configuration section these options are bound from.</summary>
    public const string SectionName = "Millrace";

    private HashSet<string>? _set;

    // ---- threads ----

    /// <summary>Event loops; 0 means one per processor. Range 0 to 256. Default 0.</summary>
    public int Loops { get; set; }

    /// <summary>Where handlers run. Default <see cref="DispatchMode.Adaptive"/>.</summary>
    public DispatchMode Dispatch { get; set; } = DispatchMode.Adaptive;

    /// <summary>Threads that stay ready to take over a loop. Range 0 to <see cref="DriversMax"/>. Default 1.</summary>
    public int StandbyDriversMin { get; set; } = 1;

    /// <summary>Threads in all: those that drive loops, stand by and run blocking handlers. Beyond them there is one for each loop, to take it over from a handler that
    /// blocks. More than <see cref="Loops"/>, at most 32,767. Default 512.</summary>
    public int DriversMax { get; set; } = 512;

    // ---- connections and requests ----

    /// <summary>Open connections; further ones are closed as soon as they are accepted. Range 1 to 1,000,000. Default 65,536.</summary>
    public int MaxConnections { get; set => field = Set(value); } = 65_536;

    /// <summary>Connections that have switched protocols (WebSockets), of all that are open; a further switch fails in the handler that asks for it.
    /// Null means no limit of their own. Range 0 to 1,000,000. Default null.</summary>
    public int? MaxUpgradedConnections { get; set => field = Set(value); }

    /// <summary>Descriptors that are left to the application and the runtime when connections take all others; further connections wait in the
    /// listening socket's queue. Half of them take connections that a process before this one has served, and those of an address with gate=off. A quarter of the process's descriptors (RLIMIT_NOFILE) is reserved at most. Range 0 to 1,000,000. Default 256.</summary>
    public int ReservedDescriptors { get; set; } = 256;

    /// <summary>Requests that run at the same time; null means as many as there are connections. Range 1 to 1,000,000. Default null.</summary>
    public int? MaxConcurrentRequests { get; set; }

    /// <summary>Requests that may wait for their turn when <see cref="MaxConcurrentRequests"/> is reached; further ones are refused
    /// (FastCGI: OVERLOADED, HTTP: 503). Range 0 to 1,000,000. Default 1,000.</summary>
    public int RequestQueueLimit { get; set; } = 1_000;

    /// <summary>Longest time a request may wait for its turn when <see cref="MaxConcurrentRequests"/> is reached; then it is refused
    /// (FastCGI: OVERLOADED, HTTP: 503). Range 100 ms to 1 day. Default 30 s.</summary>
    public TimeSpan RequestQueueTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>Connections waiting to be accepted, as the kernel counts them (it also applies net.core.somaxconn). Range 1 to 65,535. Default 4,096.</summary>
    public int Backlog { get; set; } = 4_096;

    // ---- the head ----

    /// <summary>Header fields of one request over either protocol; more are answered 431. Over FastCGI they are the parameters that begin with <c>HTTP_</c>.
    /// Range 1 to 10,000. Default 100.</summary>
    public int MaxHeaders { get; set => field = Set(value); } = 100;

    /// <summary>FastCGI parameters of one request, header fields among them; more are answered 431. Range 10 to 100,000. Default 1,000.</summary>
    public int MaxParameters { get; set; } = 1_000;

    /// <summary>Bytes of all FastCGI parameters, or of the header section of an HTTP request, which is never allowed more than 32,768 unless
    /// Kestrel's Limits.MaxRequestHeadersTotalSize is set; more are answered 431.
    /// Range 1,024 to 16 MiB. Default 65,536.</summary>
    public int MaxHeadBytes { get; set => field = Set(value); } = 65_536;

    /// <summary>Bytes of a request target (FastCGI: of REQUEST_URI, where at least 16,384 are taken) or of an HTTP request line; more are answered 414. Range 64 to <see cref="MaxHeadBytes"/>. Default 8,192.</summary>
    public int MaxRequestLineBytes { get; set => field = Set(value); } = 8_192;

    /// <summary>What becomes of paths with dot segments. Default <see cref="DotSegments.Refuse"/>: 400.</summary>
    public DotSegments DotSegments { get; set; }

    /// <summary>What becomes of FastCGI requests that have a header's variable twice, with different values. Default <see cref="AmbiguousHeaders.Adaptive"/>.</summary>
    public AmbiguousHeaders AmbiguousHeaders { get; set; }

    /// <summary>Time from the first byte of a request to the end of its head. Range 100 ms to 1 day. Default 30 s.</summary>
    public TimeSpan HeadTimeout { get; set => field = Set(value); } = TimeSpan.FromSeconds(30);

    // ---- the body ----

    /// <summary>Bytes of a request body, counted as they arrive; null means no limit. An application may set another limit per request
    /// (413 when it is exceeded). Default 30,000,000.</summary>
    public long? MaxRequestBodySize { get; set => field = Set(value); } = 30_000_000;

    /// <summary>Bytes of a request body kept for a handler that does not read; then the server stops reading from the connection.
    /// Range 4,096 to 64 MiB. Default 1 MiB.</summary>
    public int RequestBodyBuffer { get; set => field = Set(value); } = 1024 * 1024;

    /// <summary>Longest silence of a peer in the middle of a request body. Range 100 ms to 1 day. Default 60 s.</summary>
    public TimeSpan BodyTimeout { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>Bytes a second a request body must reach on average, after <see cref="MinBodyRateGrace"/>; 0 switches the rule off. Default 240.</summary>
    public int MinBodyBytesPerSecond { get; set => field = Set(value); } = 240;

    /// <summary>Time before <see cref="MinBodyBytesPerSecond"/> applies. Default 5 s.</summary>
    public TimeSpan MinBodyRateGrace { get; set => field = Set(value); } = TimeSpan.FromSeconds(5);

    /// <summary>Time for the rest of an HTTP request body that its handler has not read, from the end of the handler; then the connection is closed
    /// behind its answer. <see cref="MinBodyBytesPerSecond"/> applies meanwhile. Range 100 ms to 1 day. Default 30 s.</summary>
    public TimeSpan UnreadBodyTimeout { get; set; } = TimeSpan.FromSeconds(30);

    // ---- the response and the connection ----

    /// <summary>Time a request may take in all, after which its <c>RequestAborted</c> fires; zero means no limit. A handler that has asked for that token and ends
    /// without adding anything to a response that is not known to be whole is taken for one that gives up: 504, or a response that is broken off. Default zero.</summary>
    public TimeSpan RequestTimeout { get; set; } = TimeSpan.Zero;

    /// <summary>Longest time in which a peer may take no byte of a response that waits for it, before the connection is cut. Range 100 ms to 1 day. Default 60 s.</summary>
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>Bytes a second that an HTTP client must take on average of a response that waits for it, after <see cref="MinResponseRateGrace"/>;
    /// 0 switches the rule off. Over FastCGI there is none: the web server has the clients. Range 0 or more. Default 240.</summary>
    public int MinResponseBytesPerSecond { get; set => field = Set(value); } = 240;

    /// <summary>Time before <see cref="MinResponseBytesPerSecond"/> applies, and for which it must be missed. Range zero to 1 day. Default 5 s.</summary>
    public TimeSpan MinResponseRateGrace { get; set => field = Set(value); } = TimeSpan.FromSeconds(5);

    /// <summary>Time a keep-alive connection may be idle. Longer than the front server's own, so that it is the one that closes.
    /// Range 100 ms to 1 day. Default 130 s.</summary>
    public TimeSpan IdleTimeout { get; set => field = Set(value); } = TimeSpan.FromSeconds(130);

    /// <summary>Bytes of an unwanted request body that are read and thrown away to keep a connection in step; more of them end the connection.
    /// Range 0 to 1 GiB. Default 16 MiB.</summary>
    public int MaxDiscardBytes { get; set; } = 16 * 1024 * 1024;

    /// <summary>Whether the threads of a busy loop do not interrupt whoever wakes them (SCHED_BATCH, sched(7)): a web server on the same machine gets its requests
    /// passed on a batch at a time, which costs both less. Threads that the runtime starts from a handler may have the policy for up to a second. Default true.</summary>
    public bool BatchScheduling { get; set; } = true;

    /// <summary>Time requests in progress are given when the server stops. Range zero to 1 day. Default 30 s.</summary>
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>Requests that take longer, from the end of their head to the end of their handler, are logged with where the time went; zero logs none.
    /// Range zero to 1 day. Default zero: streams are long on purpose.</summary>
    public TimeSpan SlowRequestThreshold { get; set; } = TimeSpan.Zero;

    /// <summary>Whether SIGHUP, SIGUSR1 and SIGUSR2, which end a process at once where nobody takes them, do nothing but a line in the log.
    /// Signals that the application has taken before the server starts stay its own. Default null: yes under a host, where a SIGHUP that says that
    /// the terminal has gone stops the application; no for <see cref="MillraceServer"/>, whose application is in charge of its process.</summary>
    public bool? IgnoreSignals { get; set; }

    /// <summary>Whether handlers may read and write bodies synchronously. Default false.</summary>
    public bool AllowSynchronousIO { get; set => field = Set(value); }

    /// <summary>Whether HTTP responses carry <c>Server: Millrace</c>. FastCGI responses never do. Default true.</summary>
    public bool AddServerHeader { get; set => field = Set(value); } = true;

    // ---- what only Kestrel has a name for ----

    /// <summary>Bytes of the header section of an HTTP request.</summary>
    internal int HttpHeaderBytesMax { get => field > 0 ? field : Math.Min(MaxHeadBytes, 32 * 1024); set; }

    // ---- where those who connect, or give connections, are not to be trusted with more than MaxConnections: what the daemon answers with itself ----

    /// <summary>Whether each connection counts for <see cref="MaxConnections"/>, also one to an address with gate=off, and one that has moved and says so.</summary>
    internal bool CountsAll { get; set; }

    // ---- what a router of shared addresses adds to the head of its client, whose limits are the client's ----

    /// <summary>Whether requests come from one.</summary>
    internal bool IsRouted { get; set; }

    /// <summary>By which path it has found the application: one field.</summary>
    internal int RoutedFields => IsRouted ? 1 : 0;

    /// <summary>The field, and variables that the client's own server had no need for.</summary>
    internal int RoutedParameters => IsRouted ? 16 : 0;

    /// <summary>Bytes of all this: among it paths once more, and text in UTF-8 that had one byte a character.</summary>
    internal int RoutedBytes => IsRouted ? 64 * 1024 : 0;

    internal int EffectiveLoops => Loops > 0 ? Loops : Environment.ProcessorCount;

    /// <summary>Whether an option has been given a value, be it the default. Known of those that Kestrel has too.</summary>
    internal bool IsSet(string option) => _set?.Contains(option) == true;

    private T Set<T>(T value, [CallerMemberName] string option = "")
    {
        (_set ??= []).Add(option);
        return value;
    }

    /// <summary>Checks every range.</summary>
    /// <exception cref="ArgumentOutOfRangeException">A value is outside its range; the message names it.</exception>
    internal MillraceOptions Validate()
    {
        foreach (OptionRange range in Ranges())
        {
            if (!range.Holds)
            {
                throw new ArgumentOutOfRangeException(range.Name, range.Fault);
            }
        }

        return this;
    }

    /// <summary>The ranges of all options that have one, and whether the values are within.</summary>
    internal IReadOnlyList<OptionRange> Ranges()
    {
        List<OptionRange> ranges = [];
        Check(nameof(Loops), Loops, 0, 256);
        Check(nameof(DriversMax), DriversMax, EffectiveLoops + 1, 32_767);
        Check(nameof(StandbyDriversMin), StandbyDriversMin, 0, DriversMax);
        Check(nameof(MaxConnections), MaxConnections, 1, 1_000_000);
        Check(nameof(MaxUpgradedConnections), MaxUpgradedConnections ?? 0, 0, 1_000_000);
        Check(nameof(ReservedDescriptors), ReservedDescriptors, 0, 1_000_000);
        Check(nameof(MaxConcurrentRequests), MaxConcurrentRequests ?? 1, 1, 1_000_000);
        Check(nameof(RequestQueueLimit), RequestQueueLimit, 0, 1_000_000);
        Check(nameof(Backlog), Backlog, 1, 65_535);
        Check(nameof(MaxHeaders), MaxHeaders, 1, 10_000);
        Check(nameof(MaxParameters), MaxParameters, 10, 100_000);
        Check(nameof(MaxHeadBytes), MaxHeadBytes, 1_024, 16 * 1024 * 1024);
        Check(nameof(MaxRequestLineBytes), MaxRequestLineBytes, 64, MaxHeadBytes);
        Check(nameof(MaxRequestBodySize), MaxRequestBodySize ?? 0, 0, long.MaxValue);
        Check(nameof(RequestBodyBuffer), RequestBodyBuffer, 4_096, 64 * 1024 * 1024);
        Check(nameof(MinBodyBytesPerSecond), MinBodyBytesPerSecond, 0, int.MaxValue);
        Check(nameof(MaxDiscardBytes), MaxDiscardBytes, 0, 1024 * 1024 * 1024);
        CheckTime(nameof(HeadTimeout), HeadTimeout, TimeSpan.FromMilliseconds(100));
        CheckTime(nameof(BodyTimeout), BodyTimeout, TimeSpan.FromMilliseconds(100));
        CheckTime(nameof(MinBodyRateGrace), MinBodyRateGrace, TimeSpan.Zero);
        CheckTime(nameof(UnreadBodyTimeout), UnreadBodyTimeout, TimeSpan.FromMilliseconds(100));
        CheckTime(nameof(RequestQueueTimeout), RequestQueueTimeout, TimeSpan.FromMilliseconds(100));
        Check(nameof(MinResponseBytesPerSecond), MinResponseBytesPerSecond, 0, int.MaxValue);
        CheckTime(nameof(MinResponseRateGrace), MinResponseRateGrace, TimeSpan.Zero);
        CheckTime(nameof(RequestTimeout), RequestTimeout, TimeSpan.Zero);
        CheckTime(nameof(SendTimeout), SendTimeout, TimeSpan.FromMilliseconds(100));
        CheckTime(nameof(IdleTimeout), IdleTimeout, TimeSpan.FromMilliseconds(100));
        CheckTime(nameof(DrainTimeout), DrainTimeout, TimeSpan.Zero);
        CheckTime(nameof(SlowRequestThreshold), SlowRequestThreshold, TimeSpan.Zero);
        return ranges;

        void Check(string name, long value, long min, long max) => ranges.Add(OptionRange.Of(name, value, min, max));

        void CheckTime(string name, TimeSpan value, TimeSpan min) => ranges.Add(OptionRange.Of(name, value, min, TimeSpan.FromDays(1)));
    }
}
