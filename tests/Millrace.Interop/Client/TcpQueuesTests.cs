using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.Client;

public sealed class TcpQueuesTests
{
    [Fact]
    public async Task Bytes_that_nobody_reads_are_told_with_their_ports()
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        using var sender = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await sender.ConnectAsync(listener.LocalEndPoint!);
        using Socket receiver = await listener.AcceptAsync();
        await sender.SendAsync(new byte[777]);
        _ = receiver.Poll(TimeSpan.FromSeconds(10), SelectMode.SelectRead);
        string expected = string.Create(
            CultureInfo.InvariantCulture,
            $" port {((IPEndPoint)receiver.LocalEndPoint!).Port} to {((IPEndPoint)sender.LocalEndPoint!).Port}: 0 unacknowledged, 777 unread;");

        // What the system lists is no snapshot: while others come and go it may pass one over.
        Assert.True(SpinWait.SpinUntil(() => TcpQueues.Describe().Contains(expected, StringComparison.Ordinal), TimeSpan.FromSeconds(10)), TcpQueues.Describe());
        string all = "";
        Assert.True(SpinWait.SpinUntil(() => HasAll(all = Standstill.Describe()), TimeSpan.FromSeconds(10)), all);
        Assert.Contains("Dirty:", all, StringComparison.Ordinal);
        Assert.Contains(" R ", all, StringComparison.Ordinal);      // whoever asks

        bool HasAll(string said) => said.Contains(expected, StringComparison.Ordinal)
            && (said.Contains("bytes_sent:777 ", StringComparison.Ordinal) || said.EndsWith("No ss here.", StringComparison.Ordinal));
    }
}
