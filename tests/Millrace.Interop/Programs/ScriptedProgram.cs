// A FastCGI program that says what a test has it say: it takes a request to the end of its head, gives the test the connection, and notes what comes.
using System.Buffers.Binary;
using System.Net.Sockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Programs;

internal sealed class ScriptedProgram : IAsyncDisposable
{
    private readonly TemporaryDirectory _directory = new("prog");
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
    private readonly CancellationTokenSource _stop = new();
    private readonly Func<Talk, Task> _answer;
    private readonly Task _accepting;

    public ScriptedProgram(Func<Talk, Task> answer, int backlog = 64)
    {
        _answer = answer;
        string path = Path.Combine(_directory.Path, "p.sock");
        Address = "unix:" + path;
        _listener.Bind(new UnixDomainSocketEndPoint(path));
        _listener.Listen(backlog);
        _accepting = AcceptAsync();
    }

    public string Address { get; }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        await _accepting;
        _listener.Dispose();
        _stop.Dispose();
        _directory.Dispose();
    }

    private async Task AcceptAsync()
    {
        var talks = new List<Task>();
        try
        {
            while (true)
            {
                talks.Add(ServeAsync(await _listener.AcceptAsync(_stop.Token)));
            }
        }
        catch (OperationCanceledException)
        {
            await Task.WhenAll(talks);
        }
    }

    private async Task ServeAsync(Socket socket)
    {
        using (socket)
        {
            try
            {
                await _answer(new Talk(socket, _stop.Token));
            }
            catch (Exception error) when (error is SocketException or OperationCanceledException or EndOfStreamException)
            {
                // The other side has gone, or the test is over.
            }
        }
    }

    internal sealed class Talk(Socket socket, CancellationToken ct)
    {
        public CancellationToken Ct => ct;

        /// <summary>The next record.</summary>
        /// <exception cref="EndOfStreamException">There is none any more.</exception>
        public async Task<(byte Type, byte[] Content)> ReadAsync()
        {
            byte[] header = await ExactlyAsync(8);
            byte[] content = await ExactlyAsync(BinaryPrimitives.ReadUInt16BigEndian(header.AsSpan(4)));
            _ = await ExactlyAsync(header[6]);
            return (header[1], content);
        }

        /// <summary>Everything up to the end of PARAMS.</summary>
        public async Task ReadHeadAsync()
        {
            while (await ReadAsync() is not (4, { Length: 0 }))
            {
            }
        }

        public Task WriteAsync(byte type, byte[] content) => WriteAtOnceAsync((type, content));

        /// <summary>Records in one write.</summary>
        public async Task WriteAtOnceAsync(params (byte Type, byte[] Content)[] records)
        {
            byte[] all = [.. records.SelectMany(static record => RecordOf(record.Type, record.Content))];
            for (int sent = 0; sent < all.Length;)
            {
                sent += await socket.SendAsync(all.AsMemory(sent), ct);
            }
        }

        private static byte[] RecordOf(byte type, byte[] content)
        {
            byte[] record = new byte[8 + content.Length];
            record[0] = 1;
            record[1] = type;
            record[3] = 1;
            BinaryPrimitives.WriteUInt16BigEndian(record.AsSpan(4), (ushort)content.Length);
            content.CopyTo(record, 8);
            return record;
        }

        public Task PrintAsync(string text) => WriteAsync(6, Encoding.Latin1.GetBytes(text));

        public Task EndAsync() => WriteAsync(3, new byte[8]);

        private async Task<byte[]> ExactlyAsync(int count)
        {
            byte[] bytes = new byte[count];
            for (int have = 0; have < count;)
            {
                int more = await socket.ReceiveAsync(bytes.AsMemory(have), ct);
                have += more > 0 ? more : throw new EndOfStreamException();
            }
            return bytes;
        }
    }
}
