// Every limit of a pool of processes beside those that it has in common with other pools.

namespace Millrace.Workers;

/// <summary>When a process counts as ready for its first call.</summary>
public enum ProcessReady
{
    /// <summary>When it answers FCGI_GET_VALUES (FastCGI 1.0 §4.1), or ends the connection on which it was asked. PHP, libfcgi and Millrace do.</summary>
    Answers,

    /// <summary>As soon as it has been started. Calls wait in the queue of its socket until it accepts.</summary>
    Starts,
}

/// <summary>Options of a <see cref="ProcessPool"/>. They are read once, when the pool is made.</summary>
public sealed class ProcessPoolOptions : WorkerPoolOptions
{
    /// <summary>Defaults, of which <see cref="WorkerPoolOptions.ThreadBound"/> is false: a process needs no thread here.</summary>
    public ProcessPoolOptions() => ThreadBound = false;

    // ---- the program ----

    /// <summary>The program: a path, or a name that is looked for in PATH. It has a listening Unix socket as its descriptor 0 and speaks FastCGI on it. A shell script around it
    /// must <c>exec</c> it: the process that is started here is the one that is asked to end, and killed. No default.</summary>
    public string Command { get; set; } = "";

    /// <summary>Its arguments. Default none.</summary>
    public IList<string> Arguments { get; private set; } = [];

    /// <summary>Variables that it has beside those of this process, or instead. PHP_FCGI_CHILDREN and PHP_FCGI_MAX_REQUESTS are 0 unless they stand here, since how many processes there are, and how
    /// long they live, is the pool's to decide. Default none.</summary>
    public IDictionary<string, string> Environment { get; private set; } = new Dictionary<string, string>(StringComparer.Ordinal);

    /// <summary>What it has instead of this process's own variables; null: those.</summary>
    internal IReadOnlyDictionary<string, string>? Inherited { get; set; }

    /// <summary>Says what a process is doing, as <see cref="Processes.ProcessFacts.DescribeAsync"/> does.</summary>
    internal Func<int, string?, Task<string>> Describe { get; set; } = Processes.ProcessFacts.DescribeAsync;

    /// <summary>The folder that it begins in; null: this process's. Default null.</summary>
    public string? WorkingDirectory { get; set; }

    /// <summary>When it counts as ready. Default <see cref="ProcessReady.Answers"/>.</summary>
    public ProcessReady Ready { get; set; }

    /// <summary>One that is not ready in time is killed, and has ended before the pool would leave it alone.</summary>
    internal override TimeSpan StartGrace => TimeSpan.FromSeconds(5);

    // ---- one call ----

    /// <summary>How long a process may go on with a call whose caller has left before it is killed and another takes its place. Range 0 to 1 hour. Default 5 s.</summary>
    public TimeSpan AbortLimit { get; set; } = TimeSpan.FromSeconds(5);

    // ---- one life ----

    /// <summary>Resident memory, in bytes, above which a fresh process takes the place of one when its call has ended; null: no limit. Range 1 MiB to 1 TiB. Default null.</summary>
    public long? RecycleAboveMemory { get; set; }

    /// <summary>Resident memory, in bytes, above which a process is killed, whatever it is doing; looked at every 250 ms. Null: no limit. Range 1 MiB to 1 TiB. Default null.</summary>
    public long? MemoryMax { get; set; }

    /// <summary>How long a process that has been asked to end (SIGTERM) may take before it is killed. Range 0 to 1 hour, and less than <see cref="WorkerPoolOptions.EndLimit"/>. Default 5 s.</summary>
    public TimeSpan StopLimit { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>What prints the managed stacks of a .NET process whose number follows it, before that is killed; words with a space between them. Null: <c>millrace stacks</c> or
    /// <c>dotnet-stack report -p</c>, whichever is in PATH. Default null.</summary>
    public string? StackCommand { get; set; }

    /// <inheritdoc/>
    public override IReadOnlyList<string> Validate()
    {
        var found = new List<string>(base.Validate());
        if (Command.Length == 0)
        {
            found.Add("Command is empty; it is the program that a worker is.");
        }
        if (ThreadBound)
        {
            found.Add("ThreadBound is for workers in this process.");
        }
        if (WorkingDirectory is not null && !Directory.Exists(WorkingDirectory))
        {
            found.Add($"WorkingDirectory is {WorkingDirectory}, which is no folder.");
        }
        if (!Enum.IsDefined(Ready))
        {
            found.Add($"Ready is {Ready}; it may be {string.Join(" or ", Enum.GetNames<ProcessReady>())}.");
        }
        foreach (string name in Environment.Keys.Where(static name => name.Length == 0 || name.Contains('=', StringComparison.Ordinal) || name.Contains('\0', StringComparison.Ordinal)))
        {
            found.Add($"Environment has the name \"{name}\", which is none.");
        }
        JudgeNumber(found, nameof(RecycleAboveMemory), RecycleAboveMemory ?? 1 << 20, 1 << 20, 1L << 40);
        JudgeNumber(found, nameof(MemoryMax), MemoryMax ?? 1 << 20, 1 << 20, 1L << 40);
        JudgeTime(found, nameof(AbortLimit), AbortLimit, TimeSpan.Zero, TimeSpan.FromHours(1));
        JudgeTime(found, nameof(StopLimit), StopLimit, TimeSpan.Zero, TimeSpan.FromHours(1));
        if (StopLimit >= EndLimit)
        {
            found.Add(FormattableString.Invariant($"StopLimit is {StopLimit}; it is to be less than EndLimit, {EndLimit}."));
        }
        return found;
    }

    internal ProcessPoolOptions Copy()
    {
        var its = (ProcessPoolOptions)MemberwiseClone();
        its.Arguments = [.. Arguments];
        its.Environment = new Dictionary<string, string>(Environment, StringComparer.Ordinal);
        return its;
    }

    internal IReadOnlyList<string> CompleteEnvironment()
    {
        var all = new Dictionary<string, string>(StringComparer.Ordinal);
        foreach (var (name, value) in Inherited ?? OfProcess())
        {
            all[name] = value;
        }
        all["PHP_FCGI_CHILDREN"] = "0";
        all["PHP_FCGI_MAX_REQUESTS"] = "0";
        foreach (var (name, value) in Environment)
        {
            all[name] = value;
        }
        return [.. all.Select(static entry => $"{entry.Key}={entry.Value}")];
    }

    internal static Dictionary<string, string> OfProcess() =>
        System.Environment.GetEnvironmentVariables().Cast<System.Collections.DictionaryEntry>().ToDictionary(static entry => (string)entry.Key, static entry => (string?)entry.Value ?? "", StringComparer.Ordinal);
}
