// Stands between a front end and the application and keeps every byte the front end sends, connection by connection.
// Changes nothing: neither bytes nor, apart from a little delay, how they are cut.
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Traces;

internal sealed class RecordingRelay : IAsyncDisposable
{
    private readonly Socket _listener;
    private readonly EndPoint _application;
    private readonly ConcurrentQueue<MemoryStream> _connections = new();
    private readonly ConcurrentQueue<Task> _running = new();

    /// <summary>Listens on a socket of the application's kind.</summary>
    /// <param name="application">The application's address.</param>
    /// <param name="directory">Where a Unix socket may be made.</param>
    public RecordingRelay(string application, string directory)
    {
        string scheme = application[..application.IndexOf("://", StringComparison.Ordinal)];
        string host = Upstream.HostPart(application);
        if (host.StartsWith("unix:", StringComparison.Ordinal))
        {
            string path = Path.Combine(directory, "relay.sock");
            _application = new UnixDomainSocketEndPoint(host["unix:".Length..]);
            _listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            _listener.Bind(new UnixDomainSocketEndPoint(path));
            Address = $"{scheme}://unix:{path}";
        }
        else
        {
            _application = IPEndPoint.Parse(host);
            _listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            Address = $"{scheme}://127.0.0.1:{((IPEndPoint)_listener.LocalEndPoint!).Port}";
        }

        _listener.Listen();
        _running.Enqueue(AcceptAsync());
    }

    public string Address { get; }

    /// <summary>What came over each connection that brought anything, once all of them have ended.</summary>
    public async Task<IReadOnlyList<byte[]>> RecordedAsync()
    {
        _listener.Dispose();
        await Task.WhenAll(_running);
        return [.. _connections.Select(static bytes => bytes.ToArray()).Where(static bytes => bytes.Length > 0)];
    }

    public ValueTask DisposeAsync()
    {
        _listener.Dispose();
        return ValueTask.CompletedTask;
    }

    private async Task AcceptAsync()
    {
        while (true)
        {
            try
            {
                Socket front = await _listener.AcceptAsync();
                _running.Enqueue(RelayAsync(front));
            }
            catch (SocketException)
            {
                return;
            }
            catch (ObjectDisposedException)
            {
                return;
            }
        }
    }

    // Where either side closes, both are closed: that is what the front ends do.
    private async Task RelayAsync(Socket front)
    {
        var bytes = new MemoryStream();
        _connections.Enqueue(bytes);
        using (front)
        using (var back = new Socket(_application.AddressFamily, SocketType.Stream, front.ProtocolType))
        {
            await back.ConnectAsync(_application);
            Task forth = PumpAsync(front, back, bytes);
            Task answers = PumpAsync(back, front, null);
            await Task.WhenAny(forth, answers);
            front.Shutdown(SocketShutdown.Both);
            back.Shutdown(SocketShutdown.Both);
            await Task.WhenAll(forth, answers);
        }
    }

    private static async Task PumpAsync(Socket from, Socket to, MemoryStream? copy)
    {
        byte[] buffer = new byte[64 * 1024];
        try
        {
            for (int count; (count = await from.ReceiveAsync(buffer)) > 0;)
            {
                copy?.Write(buffer, 0, count);
                for (int sent = 0; sent < count;)
                {
                    sent += await to.SendAsync(buffer.AsMemory(sent, count - sent));
                }
            }
        }
        catch (SocketException)
        {
            // The other side is gone.
        }
    }
}
