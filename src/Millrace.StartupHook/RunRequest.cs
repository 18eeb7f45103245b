// What `millrace run` asks of the hook through the environment: the addresses to listen on, whatever the app's code says,
// and a pipe to report on: one line, the real addresses separated by ';', or why there are none: '!' and what is wrong with an
// address, '?' and what is wrong otherwise. Without these variables the hook leaves the addresses alone.
//
// `millrace serve` asks for more: the application listens on a socket of the daemon's alone first, and on its own addresses when it is told to over a
// second socket (ServedChannel). They are descriptors that it inherits, and it is shown the addresses that they were opened for.

using System.Globalization;
using System.IO.Pipes;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.StartupHooks;

internal static partial class RunRequest
{
    private const string UrlsVariable = "MILLRACE_RUN_URLS";
    private const string HostUrlsVariable = "ASPNETCORE_URLS";
    private const string ChosenVariable = "MILLRACE_RUN_CHOSEN";
    private const string ReportVariable = "MILLRACE_RUN_REPORT";

    private const string ChannelVariable = "MILLRACE_SERVE_CHANNEL";
    private const string LaterUrlsVariable = "MILLRACE_SERVE_URLS";
    private const string ShownUrlsVariable = "MILLRACE_SERVE_SHOWN";
    private const string MoveVariable = "MILLRACE_SERVE_MOVE";
    private const string BaseVariable = "MILLRACE_SERVE_BASE";
    private const string RoutedVariable = "MILLRACE_SERVE_ROUTED";
    private const string LimitsVariable = "MILLRACE_SERVE_LIMITS";
    private const string DaemonVariable = "MILLRACE_SERVE_DAEMON";
    private const string EndsVariable = "MILLRACE_SERVE_ENDS";
    private const string FolderVariable = "MILLRACE_SERVE_FOLDER";

    // The process sockets were passed to: the command, which passes them on.
    private const string ListenVariable = "MILLRACE_RUN_LISTEN_PID";
    private const string ListenProcess = "LISTEN_PID";

    private const int SetDescriptorFlags = 2;    // F_SETFD
    private const int CloseOnExec = 1;           // FD_CLOEXEC
    private const int DuplicateDescriptor = 1030;   // F_DUPFD_CLOEXEC
    private const int OpenFiles = 7;             // RLIMIT_NOFILE

    private static int s_reportDescriptor = -1;
    private static string? s_hostUrlsBefore;
    private static int s_hasHostUrls;

    /// <summary>The addresses to listen on, or null for those of the app.</summary>
    public static IReadOnlyList<string>? Addresses { get; private set; }

    /// <summary>Whether the command chose the addresses because nobody named any: HTTP endpoints that the app sets for Kestrel stand in for its HTTP ones.</summary>
    public static bool AddressesAreChosen { get; private set; }

    public static bool HasReportPipe => s_reportDescriptor >= 0;

    /// <summary>The socket on which the daemon tells what to do, or -1 where there is no daemon.</summary>
    public static int ChannelDescriptor { get; private set; } = -1;

    /// <summary>Where to listen when the daemon says so: descriptors.</summary>
    public static IReadOnlyList<string> LaterAddresses { get; private set; } = [];

    /// <summary>What these descriptors were opened for.</summary>
    public static IReadOnlyList<string> ShownAddresses { get; private set; } = [];

    /// <summary>The path that leads to the application at an address that it shares with others; empty where there is none.</summary>
    public static string PathBase { get; private set; } = "";

    /// <summary>By which a router is known that says more of a request; empty where there is none.</summary>
    public static string RouterKey { get; private set; } = "";

    /// <summary>Whether the kernel keeps the process to an amount of memory.</summary>
    public static bool HasMemoryLimit { get; private set; }

    public static void TakeFromEnvironment()
    {
        if (Environment.GetEnvironmentVariable(UrlsVariable) is { Length: > 0 } urls)
        {
            Addresses = ListOf(urls);
            s_hostUrlsBefore = Environment.GetEnvironmentVariable(HostUrlsVariable);
            s_hasHostUrls = 1;
            Environment.SetEnvironmentVariable(HostUrlsVariable, urls);
        }
        AddressesAreChosen = Environment.GetEnvironmentVariable(ChosenVariable) is not null;
        if (int.TryParse(Environment.GetEnvironmentVariable(ReportVariable), NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor))
        {
            s_reportDescriptor = descriptor;
            Keep(descriptor);
        }
        TakeDaemonsRequest();
        if (Environment.GetEnvironmentVariable(ListenVariable) is { } commandProcess && commandProcess == Environment.GetEnvironmentVariable(ListenProcess))
        {
            Environment.SetEnvironmentVariable(ListenProcess, Environment.ProcessId.ToString(CultureInfo.InvariantCulture));
        }
        Environment.SetEnvironmentVariable(ListenVariable, null);
        Environment.SetEnvironmentVariable(UrlsVariable, null);
        Environment.SetEnvironmentVariable(ChosenVariable, null);
        Environment.SetEnvironmentVariable(ReportVariable, null);
    }

    /// <summary>The ends of the channel through which connections move from one generation to the next: where this one gives, and where it takes.</summary>
    public static (int Gives, int Takes) MoveDescriptors { get; private set; } = (-1, -1);

    private static void TakeDaemonsRequest()
    {
        if (int.TryParse(Environment.GetEnvironmentVariable(ChannelVariable), NumberStyles.None, CultureInfo.InvariantCulture, out int channel))
        {
            BeginSession();
            ChannelDescriptor = channel;
            LaterAddresses = ListOf(Environment.GetEnvironmentVariable(LaterUrlsVariable));
            ShownAddresses = ListOf(Environment.GetEnvironmentVariable(ShownUrlsVariable));
            PathBase = Environment.GetEnvironmentVariable(BaseVariable) ?? "";
            RouterKey = Environment.GetEnvironmentVariable(RoutedVariable) ?? "";
            Keep(channel);
            OrphanWatch.Begin(Environment.GetEnvironmentVariable(DaemonVariable), Environment.GetEnvironmentVariable(EndsVariable) is { Length: > 0 });
            Enter(Environment.GetEnvironmentVariable(FolderVariable) ?? "");
            TakeLimits(Environment.GetEnvironmentVariable(LimitsVariable) ?? "");
            TakeMoveDescriptors(Environment.GetEnvironmentVariable(MoveVariable));
            foreach (string address in LaterAddresses.Concat(Addresses ?? []))
            {
                Keep(DescriptorOf(address));
            }
        }
        Environment.SetEnvironmentVariable(ChannelVariable, null);
        Environment.SetEnvironmentVariable(LaterUrlsVariable, null);
        Environment.SetEnvironmentVariable(ShownUrlsVariable, null);
        Environment.SetEnvironmentVariable(MoveVariable, null);
        Environment.SetEnvironmentVariable(BaseVariable, null);
        Environment.SetEnvironmentVariable(RoutedVariable, null);
        Environment.SetEnvironmentVariable(LimitsVariable, null);
        Environment.SetEnvironmentVariable(DaemonVariable, null);
        Environment.SetEnvironmentVariable(EndsVariable, null);
        Environment.SetEnvironmentVariable(FolderVariable, null);
    }

    // The folder that the application works in. The daemon does not have it entered before this process is its own program: the file system may stand still, and others be waiting for
    // their start.
    private static void Enter(string folder)
    {
        if (folder.Length == 0)
        {
            return;     // a daemon of a version that has it entered
        }
        try
        {
            Environment.CurrentDirectory = folder;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or ArgumentException)
        {
            string reason = $"{folder}, which the application works in, cannot be entered: {error.Message.TrimEnd('.')}. It must be there, and the user whom the application runs as must be able to enter it; or name another with \"workingDirectory\".";
            ReportFailure(reason, isAddress: false);
            Console.Error.WriteLine("millrace: " + reason);
            Environment.Exit(1);
        }
    }

    // DESCRIPTORS,memory. Before the application's first instruction, and for all that it starts: the runtime has taken as many as it may have, and may have no more than this from now on.
    private static void TakeLimits(string limits)
    {
        string[] both = limits.Split(',');
        string descriptors = both[0];
        HasMemoryLimit = both is [_, "memory"];
        if (ulong.TryParse(descriptors, NumberStyles.None, CultureInfo.InvariantCulture, out ulong most))
        {
            var limit = new ResourceLimit { Soft = most, Hard = most };
            if (SetResourceLimit(OpenFiles, ref limit) != 0)
            {
                Console.Error.WriteLine($"millrace: this process cannot be limited to {descriptors} descriptors (error {Marshal.GetLastSystemError()}).");
            }
        }
    }

    // GIVES,TAKES
    private static void TakeMoveDescriptors(string? both)
    {
        if (both?.Split(',') is [var gives, var takes]
            && int.TryParse(gives, NumberStyles.None, CultureInfo.InvariantCulture, out int from) && int.TryParse(takes, NumberStyles.None, CultureInfo.InvariantCulture, out int to))
        {
            MoveDescriptors = (from, to);
            Keep(from);
            Keep(to);
        }
    }

    /// <summary>Addresses that name copies of the descriptors, for a server that closes them when it stops.</summary>
    public static IReadOnlyList<string> Copied(IReadOnlyList<string> addresses) => [.. addresses.Select(static address => Copied(address, DescriptorOf(address)))];

    /// <summary>A copy of a descriptor; the descriptor itself where there can be none.</summary>
    public static int Copied(int descriptor) => ControlDescriptor(descriptor, DuplicateDescriptor, 3) is >= 0 and int copy ? copy : descriptor;

    private static string Copied(string address, int descriptor) => descriptor < 0
        ? address
        : address.Replace(string.Create(CultureInfo.InvariantCulture, $"//fd:{descriptor}"), string.Create(CultureInfo.InvariantCulture, $"//fd:{Copied(descriptor)}"), StringComparison.Ordinal);

    private static string[] ListOf(string? addresses) => (addresses ?? "").Split(';', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);

    /// <summary>Of an address such as fastcgi://fd:17?allow=...; -1 where it names none.</summary>
    internal static int DescriptorOf(string address)
    {
        const string mark = "//fd:";
        int at = address.IndexOf(mark, StringComparison.Ordinal);
        string number = at < 0 ? "" : new string([.. address.Skip(at + mark.Length).TakeWhile(char.IsAsciiDigit)]);
        return int.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor) ? descriptor : -1;
    }

    // It came by inheritance, and ends here: a child of the app would keep a pipe, or a socket, open when the app has ended.
    private static void Keep(int descriptor)
    {
        if (descriptor > 2)
        {
            _ = ControlDescriptor(descriptor, SetDescriptorFlags, CloseOnExec);
        }
    }

    /// <summary>
    /// Makes ASPNETCORE_URLS what it was. The first host has read the addresses there; its children, which would listen on them too, must not.
    /// </summary>
    public static void PutHostUrlsBack()
    {
        if (Interlocked.Exchange(ref s_hasHostUrls, 0) == 1)
        {
            Environment.SetEnvironmentVariable(HostUrlsVariable, s_hostUrlsBefore);
        }
    }

    /// <summary>Says over the pipe that the app listens; the pipe is closed behind it.</summary>
    public static void ReportAddresses(IEnumerable<string> addresses) => Report(string.Join(';', addresses));

    /// <summary>Says over the pipe why the server could not start; the pipe is closed behind it.</summary>
    /// <param name="reason">A sentence or two.</param>
    /// <param name="isAddress">Whether it could not listen where it was to, and might elsewhere.</param>
    public static void ReportFailure(string reason, bool isAddress) => Report((isAddress ? "!" : "?") + reason.ReplaceLineEndings(" "));

    private static void Report(string line)
    {
        int descriptor = Interlocked.Exchange(ref s_reportDescriptor, -1);
        if (descriptor < 0)
        {
            return;
        }
        try
        {
            using var pipe = new AnonymousPipeClientStream(PipeDirection.Out, descriptor.ToString(CultureInfo.InvariantCulture));
            pipe.Write(Encoding.UTF8.GetBytes(line + "\n"));
        }
        catch (Exception error) when (error is IOException or ArgumentException)
        {
            // Nobody listens any more: the app runs on, or ends for the reason it could not tell.
            Console.Error.WriteLine($"millrace: `millrace run` could not be told \"{line}\": {error.Message}");
        }
    }

    [StructLayout(LayoutKind.Sequential)]
    private struct ResourceLimit
    {
        public ulong Soft;
        public ulong Hard;
    }

    [LibraryImport("libc", EntryPoint = "setrlimit")]
    private static partial int SetResourceLimit(int resource, ref ResourceLimit limit);

    // Its process group is the daemon's otherwise, and its neighbours': `kill 0` in a script that it starts would end them all. Where the daemon has had it started in a session of its own this does nothing.
    private static void BeginSession() => _ = SetSession();

    [LibraryImport("libc", EntryPoint = "setsid")]
    private static partial int SetSession();

    // Variadic in C; on x64 and arm64 Linux an integer argument travels like any other.
    [LibraryImport("libc", EntryPoint = "fcntl")]
    private static partial int ControlDescriptor(int descriptor, int command, nint argument);
}
