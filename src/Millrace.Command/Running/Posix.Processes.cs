// System calls on processes that this program has not started itself, or that were started when it was another one: .NET knows only those that it has started.

using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static partial class Posix
{
    // The same on x64 and arm64.
    private const int SendSignalNumber = 424;       // pidfd_send_signal(2)
    private const int OpenProcessNumber = 434;      // pidfd_open(2)
    private const int SigChild = 17;
    private const int DoNotWait = 1;                // WNOHANG
    private const int SignalSetSize = 128;          // sizeof(sigset_t)
    private const int Block = 0;                    // SIG_BLOCK
    private const int SetMask = 2;                  // SIG_SETMASK

    /// <summary>A descriptor that stands for one process and for no other that gets its number later; can be read from when the process has ended. Negative where there is none.</summary>
    public static int OpenProcess(int process) => (int)SystemCall(OpenProcessNumber, process, 0);

    /// <summary>Sends a signal to the process that <see cref="OpenProcess"/> has given.</summary>
    public static void Send(int processDescriptor, int signal) => _ = SystemCall(SendSignalNumber, processDescriptor, signal, 0, 0);

    /// <summary>Whether the process that <see cref="OpenProcess"/> has given still has its number: it runs, or has ended and not been waited for.</summary>
    public static bool HasNumber(int processDescriptor) => SystemCall(SendSignalNumber, processDescriptor, 0, 0, 0) == 0;

    /// <summary>How a child has ended: its exit code, or 128 and the signal. Null: it is no child of this process's, or somebody else has asked.</summary>
    public static int? ExitCodeOf(int child)
    {
        int status = 0;
        if (WaitForProcess(child, ref status, DoNotWait) != child)
        {
            return null;
        }
        int signal = status & 0x7F;
        return signal == 0 ? (status >> 8) & 0xFF : 128 + signal;
    }

    /// <summary>
    /// Makes this process another program: the same process, with the same children and with the descriptors that are inherited. Signals that end or reload a daemon wait until the
    /// program takes them (<see cref="TakeWaitingSignals"/>).
    /// </summary>
    /// <returns>Only where it cannot be done: why.</returns>
    public static unsafe string Execute(string path, IReadOnlyList<string> arguments, IEnumerable<string> environment)
    {
        using var names = new NativeStrings(arguments);
        using var variables = new NativeStrings([.. environment]);
        byte* before = stackalloc byte[SignalSetSize];
        byte* blocked = stackalloc byte[SignalSetSize];
        _ = EmptySet(blocked);
        foreach (int signal in (ReadOnlySpan<int>)[SigHup, SigInt, SigQuit, SigUsr1, SigUsr2, SigTerm])
        {
            _ = AddToSet(blocked, signal);
        }
        _ = ChangeMask(Block, blocked, before);
        fixed (byte* at = Encoding.UTF8.GetBytes(path + '\0'))
        {
            _ = Execute(at, names.Pointer, variables.Pointer);
        }
        string why = SystemCalls.Describe(SystemCalls.Errno);
        _ = ChangeMask(SetMask, before, null);
        return why;
    }

    /// <summary>Has the calling thread, and what it starts, take all signals.</summary>
    public static unsafe void TakeWaitingSignals()
    {
        byte* none = stackalloc byte[SignalSetSize];
        _ = EmptySet(none);
        _ = ChangeMask(SetMask, none, null);
    }

    /// <summary>
    /// Ends of children are told to this process, and what it starts, also where whoever has started it ignores them (SIGCHLD; execve(2) keeps that): a daemon would never see one. Before
    /// anything of .NET's looks after signals.
    /// </summary>
    public static void HeedChildren()
    {
        const string ignored = "SigIgn:";
        const string facts = "/proc/self/status";
        string line = (File.Exists(facts) ? File.ReadLines(facts).FirstOrDefault(static line => line.StartsWith(ignored, StringComparison.Ordinal)) : null) ?? ignored + "0";
        if (ulong.TryParse(line[ignored.Length..].Trim(), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ulong signals) && (signals & (1UL << (SigChild - 1))) != 0)
        {
            _ = SetHandler(SigChild, 0);        // SIG_DFL
        }
    }

    [LibraryImport("libc", EntryPoint = "signal")]
    private static partial nint SetHandler(int signal, nint handler);

    [LibraryImport("libc", EntryPoint = "execve")]
    private static unsafe partial int Execute(byte* path, byte** arguments, byte** environment);

    [LibraryImport("libc", EntryPoint = "waitpid")]
    private static partial int WaitForProcess(int process, ref int status, int options);

    [LibraryImport("libc", EntryPoint = "sigemptyset")]
    private static unsafe partial int EmptySet(byte* set);

    [LibraryImport("libc", EntryPoint = "sigaddset")]
    private static unsafe partial int AddToSet(byte* set, int signal);

    [LibraryImport("libc", EntryPoint = "pthread_sigmask")]
    private static unsafe partial int ChangeMask(int how, byte* set, byte* before);

    /// <summary>Strings as execve(2) takes them: pointers, with a null behind the last.</summary>
    private sealed unsafe class NativeStrings : IDisposable
    {
        private readonly nint[] _strings;

        public NativeStrings(IReadOnlyList<string> strings)
        {
            _strings = [.. strings.Select(Marshal.StringToCoTaskMemUTF8)];
            Pointer = (byte**)NativeMemory.AllocZeroed((nuint)_strings.Length + 1, (nuint)sizeof(byte*));
            for (int i = 0; i < _strings.Length; i++)
            {
                Pointer[i] = (byte*)_strings[i];
            }
        }

        public byte** Pointer { get; }

        public void Dispose()
        {
            Array.ForEach(_strings, Marshal.FreeCoTaskMem);
            NativeMemory.Free(Pointer);
        }
    }
}
