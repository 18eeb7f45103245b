// A connection whose last close waits (SO_LINGER, with bytes that nobody reads), as a peer sends it whom nobody likes.

using System.Net;
using System.Net.Sockets;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

internal sealed unsafe class SlowToClose : IDisposable
{
    /// <summary>Beyond what any of these tests waits for.</summary>
    public static readonly TimeSpan Wait = TimeSpan.FromSeconds(20);

    /// <summary>Within which nobody has waited.</summary>
    public static readonly TimeSpan Soon = TimeSpan.FromSeconds(5);

    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly List<Socket> _farEnds = [];

    public SlowToClose()
    {
        _listener.ReceiveBufferSize = 4096;
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
    }

    /// <summary>Sends a text, and so many of them along with it; none is open here afterwards.</summary>
    /// <returns>False: they are refused.</returns>
    public bool TrySend(int socket, ReadOnlySpan<byte> text, int count = 1)
    {
        int[] connections = [.. Enumerable.Range(0, count).Select(_ => Open())];
        Array.ForEach(connections, static connection => Linger(connection, Wait));
        bool isSent = DescriptorPassing.TrySend(socket, text, connections);
        foreach (int connection in connections)
        {
            if (!isSent)
            {
                Linger(connection, TimeSpan.Zero);
            }

            _ = SystemCalls.Close(connection);
        }

        return isSent;
    }

    /// <summary>Whoever waits in a close waits no longer.</summary>
    public void Dispose()
    {
        _listener.Dispose();
        foreach (Socket end in _farEnds)
        {
            end.LingerState = new LingerOption(enable: true, seconds: 0);
            end.Dispose();
        }
        _farEnds.Clear();
    }

    private int Open()
    {
        var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        client.SendBufferSize = 4096;
        client.Connect(_listener.LocalEndPoint!);
        _farEnds.Add(_listener.Accept());
        int copy = SystemCalls.Fcntl((int)client.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
        client.Dispose();
        byte[] piece = new byte[1 << 16];
        while (default(LinuxKernel).Send(copy, piece, more: false) > 0)
        {
            // Until it takes no more.
        }

        return copy;
    }

    private static void Linger(int descriptor, TimeSpan wait)
    {
        var linger = new SystemCalls.Linger { On = 1, Seconds = (int)wait.TotalSeconds };
        Assert.Equal(0, SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_LINGER, &linger, (uint)sizeof(SystemCalls.Linger)));
    }
}
