// What a process answers, where the kernel cannot refuse the descriptors that come with it (before Linux 6.16, PassedDescriptors.cs): they are received, and closed, and the socket
// with what is still on it, on other threads than those of the daemon. Answers are short, and few; where much is received this would cost too much.

using System.Net.Sockets;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="socket">Is closed with it.</param>
/// <param name="misused">Is called when descriptors have come: each of them may keep a thread for good, so that whoever has sent them is not to be asked again.</param>
internal sealed class WaryStream(Socket socket, Action? misused = null) : NetworkStream(socket, ownsSocket: false)
{
    private int _isClosed;

    /// <summary>Receives what has come, and waits for it.</summary>
    /// <returns>0: nothing more comes, or there is no room for it.</returns>
    /// <exception cref="SocketException">Nothing can come any more.</exception>
    /// <exception cref="DescriptorsSentException">Descriptors have come.</exception>
    public static async ValueTask<int> ReceiveAsync(Socket socket, Memory<byte> buffer, CancellationToken ct)
    {
        while (true)
        {
            await socket.ReceiveAsync(Memory<byte>.Empty, SocketFlags.None, ct);
            int count = Receive(socket, buffer.Span);
            if (count >= 0 || buffer.IsEmpty)
            {
                return Math.Max(0, count);
            }
        }
    }

    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        try
        {
            return await ReceiveAsync(Socket, buffer, cancellationToken);
        }
        catch (SocketException error)
        {
            if (error is DescriptorsSentException)
            {
                misused?.Invoke();
            }
            throw new IOException(error.Message, error);
        }
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override int Read(Span<byte> buffer) => throw new NotSupportedException();

    protected override void Dispose(bool disposing)
    {
        if (Interlocked.Exchange(ref _isClosed, 1) == 0)
        {
            ForeignDescriptor.Close(Socket);
        }
        base.Dispose(disposing);
    }

    // Negative: not yet.
    private static int Receive(Socket socket, Span<byte> buffer)
    {
        if (buffer.IsEmpty)
        {
            return -1;
        }
        int count = DescriptorPassing.Receive((int)socket.Handle, buffer, out int[] passed);
        int errno = count < 0 ? SystemCalls.Errno : 0;
        ForeignDescriptor.Close(passed);
        if (passed.Length > 0)
        {
            throw new DescriptorsSentException();       // nobody sends them by mistake, and each message may keep a thread that closes what came with it
        }
        return errno is 0 or SystemCalls.EAGAIN or SystemCalls.EINTR ? count : throw new SocketException((int)SocketError.ConnectionReset);
    }
}

/// <summary>Descriptors have come, and with them nothing that counts.</summary>
internal sealed class DescriptorsSentException() : SocketException((int)SocketError.ConnectionReset);
