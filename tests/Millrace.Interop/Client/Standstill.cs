// What a test says of a response that has come to a stop: where its bytes lie, who waits for a disk, and how far each connection has come.
using System.Diagnostics;

namespace Millrace.Interop.Client;

public static class Standstill
{
    private const int MostLines = 20;

    public static string Describe() => $"{TcpQueues.Describe()}\n{DescribeDisk()}\n{DescribeThreads()}\n{DescribeConnections()}";

    // Bytes of temporary files of web servers that have not been written yet: proc_meminfo(5).
    private static string DescribeDisk() =>
        string.Join("; ", File.ReadLines("/proc/meminfo").Where(static line => line.StartsWith("MemAvailable", StringComparison.Ordinal) || line.StartsWith("Dirty", StringComparison.Ordinal) || line.StartsWith("Writeback:", StringComparison.Ordinal)));

    // The state of each thread and what the kernel has it wait in: R runs, D waits for a disk, S sleeps. proc_pid_stat(5), proc_pid_wchan(5).
    private static string DescribeThreads() =>
        "Threads:" + string.Concat(
            from process in Directory.EnumerateDirectories("/proc")
            where char.IsAsciiDigit(Path.GetFileName(process)[0])
            from directory in ThreadsOf(process)
            let stat = Read(directory, "stat")
            where stat.Contains(')', StringComparison.Ordinal)
            let name = stat[stat.IndexOf('(', StringComparison.Ordinal)..(stat.LastIndexOf(')') + 1)]
            let state = stat[stat.LastIndexOf(')') + 2]
            where state is 'R' or 'D' or 'T' || name.Contains("nginx", StringComparison.Ordinal)
            select $" {Path.GetFileName(directory)} {name} {state} {Read(directory, "wchan")};");

    private static string[] ThreadsOf(string process)
    {
        try
        {
            return Directory.GetDirectories(Path.Combine(process, "task"));
        }
        catch (Exception gone) when (gone is IOException or UnauthorizedAccessException)
        {
            return [];
        }
    }

    private static string Read(string directory, string file)
    {
        try
        {
            return File.ReadAllText(Path.Combine(directory, file));
        }
        catch (Exception gone) when (gone is IOException or UnauthorizedAccessException)
        {
            return "";
        }
    }

    // bytes_sent and bytes_received of each over TCP; of Unix sockets what waits in each, be it bytes or connections, and whose those with a file are: ss(8), of iproute2, where there is one.
    private static string DescribeConnections()
    {
        try
        {
            var tcp = Ask("-tinHO state established").Where(static line => line.Contains("bytes_received", StringComparison.Ordinal) || line.Contains("bytes_sent", StringComparison.Ordinal));
            var unix = Ask("-xanpHO").Where(static line => line.Contains(".sock", StringComparison.Ordinal) || line.Split(' ', StringSplitOptions.RemoveEmptyEntries) is [_, _, not "0", ..] or [_, "ESTAB", _, not "0", ..]);
            return string.Join('\n', [.. tcp.TakeLast(MostLines), .. unix.TakeLast(MostLines)]);
        }
        catch (System.ComponentModel.Win32Exception)
        {
            return "No ss here.";
        }
    }

    private static string[] Ask(string what)
    {
        using var ss = Process.Start(new ProcessStartInfo("ss", what) { RedirectStandardOutput = true })!;
        return ss.StandardOutput.ReadToEnd().Split('\n');
    }
}
