// Who holds a port or a socket that Millrace was told to use: best effort, from /proc, for the sentence of a refusal.
// Without the right to look into other users' processes the answer is null, never an exception.

using System.Globalization;
using System.Net;

namespace Millrace.Listeners;

internal static class SocketOwner
{
    /// <summary>What is said of this process itself.</summary>
    public const string Self = "this process";

    private const string ListenState = "0A";

    /// <summary><c>process 412 (nginx)</c>, or <see cref="Self"/>.</summary>
    public static string Describe(int process)
    {
        if (process == Environment.ProcessId)
        {
            return Self;
        }

        if (process <= 0)
        {
            return "a process outside this container";
        }

        string number = process.ToString(CultureInfo.InvariantCulture);
        string name = Printable(ReadText($"/proc/{number}/comm"));
        return name.Length == 0 ? $"process {number}" : $"process {number} ({name})";
    }

    /// <summary>A process names itself as it likes: what would move the cursor of a terminal or begin a line of a log is shown as '?'.</summary>
    internal static string Printable(string? name) => PlainText.Of((name ?? string.Empty).Trim(), '?');

    /// <summary>The process that listens where a bind to this end point collides, or null when it cannot be seen.</summary>
    public static string? OfPort(IPAddress address, int port)
    {
        string? inode = ListeningInode("/proc/net/tcp", address, port) ?? ListeningInode("/proc/net/tcp6", address, port);
        int? process = inode is null ? null : ProcessWith($"socket:[{inode}]");
        return process is null ? null : Describe(process.Value);
    }

    // sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
    //  0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 184211 ...
    private static string? ListeningInode(string table, IPAddress address, int port)
    {
        foreach (string line in (ReadText(table) ?? string.Empty).Split('\n').Skip(1))
        {
            string[] fields = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            if (fields.Length > 9 && fields[3] == ListenState && ReadEndPoint(fields[1]) is { } local && local.Port == port && Collide(local.Address, address))
            {
                return fields[9];
            }
        }

        return null;
    }

    /// <summary>Hexadecimal as the kernel prints it: 32-bit words in host order, then the port.</summary>
    internal static IPEndPoint? ReadEndPoint(string text)
    {
        int colon = text.IndexOf(':', StringComparison.Ordinal);
        if (colon is not (8 or 32) || !ushort.TryParse(text.AsSpan(colon + 1), NumberStyles.HexNumber, CultureInfo.InvariantCulture, out ushort port))
        {
            return null;
        }

        byte[] bytes = new byte[colon / 2];
        for (int word = 0; word < bytes.Length; word += 4)
        {
            if (!uint.TryParse(text.AsSpan(word * 2, 8), NumberStyles.HexNumber, CultureInfo.InvariantCulture, out uint value))
            {
                return null;
            }

            _ = BitConverter.TryWriteBytes(bytes.AsSpan(word), value);
        }

        return new IPEndPoint(new IPAddress(bytes), port);
    }

    private static bool Collide(IPAddress one, IPAddress other)
    {
        IPAddress a = one.IsIPv4MappedToIPv6 ? one.MapToIPv4() : one;
        return a.Equals(other) || IsAny(a) || IsAny(other);
    }

    private static bool IsAny(IPAddress address) => address.Equals(IPAddress.Any) || address.Equals(IPAddress.IPv6Any);

    // The lowest number is the master of a server whose workers share the descriptor.
    private static int? ProcessWith(string link)
    {
        IEnumerable<int> processes = Directory.EnumerateDirectories("/proc")
            .Select(static directory => int.TryParse(Path.GetFileName(directory), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : 0)
            .Where(static number => number > 0)
            .Order();
        foreach (int process in processes)
        {
            if (HasDescriptor(process, link))
            {
                return process;
            }
        }

        return null;
    }

    private static bool HasDescriptor(int process, string link)
    {
        try
        {
            return Directory.EnumerateFileSystemEntries($"/proc/{process.ToString(CultureInfo.InvariantCulture)}/fd")
                .Any(entry => string.Equals(new FileInfo(entry).LinkTarget, link, StringComparison.Ordinal));
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false; // another user's process, or one that ended meanwhile
        }
    }

    private static string? ReadText(string path)
    {
        try
        {
            return File.ReadAllText(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }
}
