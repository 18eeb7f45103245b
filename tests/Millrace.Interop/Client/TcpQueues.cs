// Where bytes lie that nobody moves: what a test says of a connection that has come to a stop. /proc/net/tcp, see proc_pid_net(5).
using System.Globalization;
using System.Text;

namespace Millrace.Interop.Client;

public static class TcpQueues
{
    private const string Listening = "0A";      // its columns count connections

    /// <summary>The IPv4 sockets that hold bytes: not yet acknowledged by the other side, or not yet read by this one.</summary>
    public static string Describe()
    {
        var text = new StringBuilder();
        foreach (string line in File.ReadLines("/proc/net/tcp").Skip(1))
        {
            // sl local_address rem_address st tx_queue:rx_queue ...; numbers are hexadecimal, addresses are not needed here.
            string[] columns = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            string[] queues = columns[4].Split(':');
            (int sending, int received) = (Number(queues[0]), Number(queues[1]));
            if (columns[3] != Listening && (sending > 0 || received > 0))
            {
                text.Append(CultureInfo.InvariantCulture, $" port {Port(columns[1])} to {Port(columns[2])}: {sending} unacknowledged, {received} unread;");
            }
        }

        return text.Length == 0 ? "No IPv4 socket holds any bytes." : $"Sockets that hold bytes:{text}";
    }

    private static int Port(string address) => Number(address[(address.IndexOf(':', StringComparison.Ordinal) + 1)..]);

    private static int Number(string hexadecimal) => int.Parse(hexadecimal, NumberStyles.HexNumber, CultureInfo.InvariantCulture);
}
