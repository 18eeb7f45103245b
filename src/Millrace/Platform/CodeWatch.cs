// What the code in this process can do to the threads it runs on, as far as its assemblies tell: nearly all applications
// interrupt no thread and start none by themselves, and need not pay for those that do.
//
//   MayInterrupt   an assembly names Thread.Interrupt. Asking a thread for a pending interruption is a wait of the runtime's
//                  (0.1 to 0.6 us, with a lock of the whole process in it), too dear for every request (ThreadTraits.cs).
//   MayChange      an assembly sets IsBackground or Priority, of a thread or of something else: both are asked for after each handler.
//   MayStart       an assembly names what a new thread begins with, or the scheduling policy of one, or there are child
//                  processes: what is started has the policy of the thread that starts it (BatchScheduling.cs).
//
// The loaded assemblies are searched once, and those that are loaded later when they come, which is before their code runs.
// Code that emits such calls, or makes them by reflection, is not seen: its interruption may meet the next handler of the
// thread, and still breaks nothing of the server (SteadyLock.cs); its threads have their own policy within a second.

using System.Reflection;
using System.Reflection.Metadata;

namespace Millrace.Platform;

internal sealed class CodeWatch
{
    private static readonly Lazy<CodeWatch> s_process = new(static () => new CodeWatch(AppDomain.CurrentDomain.GetAssemblies()));
    private static readonly string s_frameworks = Frameworks();

    // It interrupts threads of its own alone, or gives an interruption back to whom it was for.
    private const string PoolsOfWorkers = "Millrace.Workers";

    private volatile bool _mayInterrupt;
    private volatile bool _mayChange;
    private volatile bool _mayStart;

    /// <summary>Begins with these, and looks at all that are loaded from now on.</summary>
    public CodeWatch(IEnumerable<Assembly> assemblies)
    {
        AppDomain.CurrentDomain.AssemblyLoad += (_, loaded) => Look(loaded.LoadedAssembly);
        foreach (Assembly assembly in assemblies)
        {
            Look(assembly);
        }
    }

    /// <summary>That of the process, made by the first server.</summary>
    public static CodeWatch OfProcess => s_process.Value;

    /// <summary>True once an assembly is loaded that may call Thread.Interrupt; it stays so.</summary>
    public bool MayInterrupt => _mayInterrupt;

    /// <summary>True once an assembly is loaded that may change the priority of a thread, or make it one of the foreground; it stays so.</summary>
    public bool MayChange => _mayChange;

    /// <summary>True once code is loaded that may start threads or processes, or gives threads a policy; it stays so.</summary>
    public bool MayStart => _mayStart;

    private void Look(Assembly assembly)
    {
        if (assembly.IsDynamic || (_mayInterrupt && _mayChange && _mayStart))
        {
            return;
        }

        string name = assembly.GetName().Name!;
        if (name == "System.Diagnostics.Process")
        {
            NoteStarts();
        }
        else if (!IsKnown(assembly, name))
        {
            Names names = NamesIn(assembly);
            _mayInterrupt |= names.Interrupt && name != PoolsOfWorkers;
            _mayChange |= names.Change;
            if (names.Start)
            {
                NoteStarts();
            }
        }
    }

    private void NoteStarts()
    {
        if (!_mayStart)
        {
            _mayStart = true;
            BatchScheduling.TakeBack(all: true);    // the code that comes may be a handler's, on a driver that drives on
        }
    }

    internal readonly record struct Names(bool Interrupt, bool Change, bool Start);

    /// <summary>Whether names that end so stand in an assembly's metadata; all true where the metadata cannot be read (native AOT).</summary>
    internal static unsafe Names NamesIn(Assembly assembly)
    {
        if (!assembly.TryGetRawMetadata(out byte* metadata, out int length))
        {
            return new Names(true, true, true);
        }

        var names = new ReadOnlySpan<byte>(metadata, length);      // valid as long as the assembly, which is held here
        return new Names(
            names.IndexOf("Interrupt\0"u8) >= 0,
            names.IndexOf("set_IsBackground\0"u8) >= 0 || names.IndexOf("set_Priority\0"u8) >= 0,
            names.IndexOf("ThreadStart\0"u8) >= 0 || names.IndexOf("setschedparam\0"u8) >= 0
            || names.IndexOf("sched_setscheduler\0"u8) >= 0 || names.IndexOf("sched_setattr\0"u8) >= 0);
    }

    // The server and the runtime do neither of themselves on a thread that runs handlers but for threads of the runtime's own,
    // though they have such names. A shared framework lies in a folder of its own; a self-contained application has it among
    // its own assemblies.
    private static bool IsKnown(Assembly assembly, string name) =>
        assembly == typeof(CodeWatch).Assembly
        || name.StartsWith("System.Private.", StringComparison.Ordinal)
        || (s_frameworks.Length > 0 && LocationOf(assembly).StartsWith(s_frameworks, StringComparison.Ordinal));

    // /usr/share/dotnet/shared/ of /usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.0/System.Private.CoreLib.dll; empty where that is not its name.
    private static string Frameworks()
    {
        string? folder = Path.GetDirectoryName(Path.GetDirectoryName(Path.GetDirectoryName(LocationOf(typeof(object).Assembly))));
        return Path.GetFileName(folder) == "shared" ? folder + "/" : "";
    }

    [System.Diagnostics.CodeAnalysis.UnconditionalSuppressMessage("SingleFile", "IL3000", Justification = "An empty location is one that is in no framework's folder.")]
    private static string LocationOf(Assembly assembly) => assembly.Location;
}
