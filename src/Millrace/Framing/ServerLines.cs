// The head lines that are the same for every response of a second: status 200, Date, Server. Made once a second, swapped
// by reference, read by every thread.

using System.Globalization;
using System.Text;

namespace Millrace.Framing;

/// <summary>Lines ready to be copied. Date is the time at which a response is made, to the second (RFC 9110 §6.6.1).</summary>
internal sealed class ServerLines
{
    private static ServerLines s_named = new("Server: Millrace\r\n");
    private static ServerLines s_nameless = new("");

    private readonly string _server;
    private readonly long _untilMs;

    private ServerLines(string server, long nowMs = long.MinValue)
    {
        _server = server;
        DateTime now = DateTime.UtcNow;
        _untilMs = nowMs == long.MinValue ? nowMs : nowMs + 1000 - now.Millisecond;
        string date = string.Create(CultureInfo.InvariantCulture, $"Date: {now:R}\r\n");
        Date = Encoding.ASCII.GetBytes(date);
        Server = Encoding.ASCII.GetBytes(server);
        Common = Encoding.ASCII.GetBytes(date + server);
        Ok = Encoding.ASCII.GetBytes("HTTP/1.1 200 OK\r\n" + date + server);
    }

    /// <summary>Status line of 200, Date and Server.</summary>
    public byte[] Ok { get; }

    /// <summary>Date and Server.</summary>
    public byte[] Common { get; }

    public byte[] Date { get; }

    /// <summary>Empty where the server does not name itself.</summary>
    public byte[] Server { get; }

    /// <summary>The lines of this second, by the clock of the loops.</summary>
    public static ServerLines At(long nowMs, bool named)
    {
        ref ServerLines slot = ref named ? ref s_named : ref s_nameless;
        ServerLines lines = Volatile.Read(ref slot);
        if (nowMs < lines._untilMs && nowMs >= lines._untilMs - 1000)
        {
            return lines;
        }

        lines = new ServerLines(lines._server, nowMs);
        Volatile.Write(ref slot, lines);
        return lines;
    }
}
