// What carries the bytes of a connection to a responder: a socket, or what a test puts in its place.

using System.Net.Sockets;
using Microsoft.AspNetCore.Http;
using Millrace.AspNetCore;
using Millrace.Loops;

namespace Millrace.Connector;

internal interface ITransport : IDisposable
{
    /// <summary>Whether bytes are there to be received, or the end.</summary>
    /// <exception cref="SocketException">The connection is of no use any more.</exception>
    /// <exception cref="ObjectDisposedException">The same.</exception>
    bool HasInput { get; }

    /// <summary>Sends some of the bytes. Where it fails it has sent none of them.</summary>
    /// <exception cref="SocketException">The responder takes no more; of the task.</exception>
    ValueTask<int> SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct);

    /// <returns>0: the responder has ended the connection.</returns>
    /// <exception cref="SocketException">It has reset it.</exception>
    ValueTask<int> ReceiveAsync(Memory<byte> buffer, CancellationToken ct);

    /// <summary>Ends both directions of a Unix socket: what has come is received yet, and then the end. Any thread, also while it sends and receives.</summary>
    /// <exception cref="SocketException">They have ended.</exception>
    /// <exception cref="ObjectDisposedException">It is closed.</exception>
    void Shut();
}

/// <summary>How the sockets of a request's connections are carried: by the loop that has its own connection, or, on another server, by the runtime.</summary>
internal readonly struct TransportKind(LoopSources? loop)
{
    public static TransportKind For(HttpContext context) => new((context.AsMade() ?? context.Features.Get<ILoopFeature>())?.Sources);

    /// <summary>Null: the runtime.</summary>
    public LoopSources? Loop => loop;

    // A TCP socket has been watched by the runtime while it was being connected, and would wake both.
    public ITransport Over(Socket socket) => loop is not null && socket.AddressFamily == AddressFamily.Unix ? new LoopTransport(socket, loop) : new SocketTransport(socket);
}

internal sealed class SocketTransport(Socket socket) : ITransport
{
    public bool HasInput => socket.Poll(TimeSpan.Zero, SelectMode.SelectRead);

    public ValueTask<int> SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct) => socket.SendAsync(bytes, SocketFlags.None, ct);

    public ValueTask<int> ReceiveAsync(Memory<byte> buffer, CancellationToken ct) => socket.ReceiveAsync(buffer, SocketFlags.None, ct);

    public void Shut() => socket.Shutdown(SocketShutdown.Both);

    public void Dispose() => socket.Dispose();
}
