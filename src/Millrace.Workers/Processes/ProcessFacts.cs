// What is to be seen of a child from outside: memory and processor time, what the kernel says it is doing, and where it is a .NET program its managed stacks, which another program reads.

using System.Diagnostics;
using System.Globalization;

namespace Millrace.Workers.Processes;

internal static class ProcessFacts
{
    private const int StackBytesMax = 32 * 1024;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    /// <summary>Resident memory in bytes; null: it has ended, or the system does not say.</summary>
    public static long? Memory(int id)
    {
        // proc_pid_statm(5): pages; the second is what is resident.
        string[] fields = Read(id, "statm").Split(' ');
        return fields.Length > 1 && long.TryParse(fields[1], NumberStyles.None, CultureInfo.InvariantCulture, out long pages) ? pages * Environment.SystemPageSize : null;
    }

    /// <summary>Processor time; null: it has ended, or the system does not say.</summary>
    public static TimeSpan? ProcessorTime(int id)
    {
        // Times are the 12th and 13th field, in hundredths of a second.
        string[] fields = StatFields(id);
        return fields.Length > 12
            && long.TryParse(fields[11], NumberStyles.None, CultureInfo.InvariantCulture, out long user)
            && long.TryParse(fields[12], NumberStyles.None, CultureInfo.InvariantCulture, out long system)
            ? TimeSpan.FromMilliseconds(10 * (user + system))
            : null;
    }

    /// <summary>Whether the kernel is taking it down, or nobody has asked yet how it ended. False: it runs, or has ended, or the system does not say.</summary>
    public static bool IsEnding(int id)
    {
        const int Exiting = 4;      // PF_EXITING of the 7th field: set before the first of its descriptors is closed
        string[] fields = StatFields(id);
        return fields.Length > 6 && long.TryParse(fields[6], NumberStyles.None, CultureInfo.InvariantCulture, out long flags) && (flags & Exiting) != 0;
    }

    // proc_pid_stat(5), behind the name in parentheses, which may hold anything.
    private static string[] StatFields(int id)
    {
        string text = Read(id, "stat");
        return text[(text.LastIndexOf(')') + 1)..].Split(' ', StringSplitOptions.RemoveEmptyEntries);
    }

    /// <summary>What it is doing, in sentences.</summary>
    /// <param name="id">A process.</param>
    /// <param name="reader">What prints the stacks of a .NET process whose number follows; null: it is looked for.</param>
    public static async Task<string> DescribeAsync(int id, string? reader)
    {
        string state = KernelText.Line(Read(id, "status"), "State:");
        string waits = Read(id, "wchan");
        string where = waits is "" or "0" ? "" : $", waiting in {waits}";
        string facts = string.Create(CultureInfo.InvariantCulture, $"Its process is {id}, state {(state.Length == 0 ? "not known" : state)}{where}.");
        return IsDotNet(id) ? $"{facts} {await StacksAsync(id, reader).ConfigureAwait(false)}" : facts;
    }

    // The runtime of a process listens there for who wants to look at it. Anybody may make a file of that name: only a socket that the process itself has open counts.
    private static bool IsDotNet(int id)
    {
        try
        {
            // /proc/net/unix: Num RefCount Protocol Flags Type St Inode Path
            string path = Path.Join(Path.GetTempPath(), string.Create(CultureInfo.InvariantCulture, $"dotnet-diagnostic-{id}-"));
            var sockets = File.ReadLines("/proc/net/unix")
                .Where(line => line.Contains(path, StringComparison.Ordinal))
                .Select(static line => $"socket:[{line.Split(' ', StringSplitOptions.RemoveEmptyEntries)[6]}]")
                .ToHashSet(StringComparer.Ordinal);
            return sockets.Count > 0
                && Directory.EnumerateFiles(string.Create(CultureInfo.InvariantCulture, $"/proc/{id}/fd")).Any(file => File.ResolveLinkTarget(file, returnFinalTarget: false)?.Name is { } name && sockets.Contains(name));
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or IndexOutOfRangeException)
        {
            return false;
        }
    }

    private static async Task<string> StacksAsync(int id, string? reader)
    {
        string[] command = reader is not null ? reader.Split(' ', StringSplitOptions.RemoveEmptyEntries)
            : Find("millrace") is { } ours ? [ours, "stacks"]
            : Find("dotnet-stack") is { } theirs ? [theirs, "report", "-p"]
            : [];
        if (command.Length == 0)
        {
            return "Its managed stacks can be had where `millrace` or `dotnet-stack` is in PATH, or StackCommand says what prints them.";
        }
        var start = new ProcessStartInfo(command[0]) { RedirectStandardInput = true, RedirectStandardOutput = true, RedirectStandardError = true };
        Array.ForEach(command[1..], start.ArgumentList.Add);
        start.ArgumentList.Add(id.ToString(CultureInfo.InvariantCulture));
        using var limit = new CancellationTokenSource(s_patience);
        try
        {
            using Process process = Process.Start(start)!;
            process.StandardInput.Close();
            _ = process.StandardError.ReadToEndAsync(limit.Token);
            try
            {
                char[] text = new char[StackBytesMax];
                int count = await process.StandardOutput.ReadBlockAsync(text, limit.Token).ConfigureAwait(false);
                return $"Its stacks:\n{new string(text, 0, count).TrimEnd()}";
            }
            finally
            {
                Kill(process);
            }
        }
        catch (Exception error) when (error is System.ComponentModel.Win32Exception or IOException or InvalidOperationException or OperationCanceledException)
        {
            return $"Its managed stacks could not be had: {error.Message}";
        }
    }

    // A reader that has rights of its own (sudo) cannot be killed, and ends when nobody reads what it prints.
    private static void Kill(Process reader)
    {
        try
        {
            if (!reader.HasExited)
            {
                reader.Kill(entireProcessTree: true);
            }
        }
        catch (Exception error) when (error is AggregateException or System.ComponentModel.Win32Exception or InvalidOperationException)
        {
            // See above.
        }
    }

    private static string? Find(string name) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':', StringSplitOptions.RemoveEmptyEntries).Select(folder => Path.Join(folder, name)).FirstOrDefault(File.Exists);

    private static string Read(int id, string file) => KernelText.Read(string.Create(CultureInfo.InvariantCulture, $"/proc/{id}/{file}"));
}
