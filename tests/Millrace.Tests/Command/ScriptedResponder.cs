// A FastCGI peer for the client's tests: keeps the bytes of one request and answers with bytes written down in the test.
// Listens on a Unix socket in a folder of its own.

using System.Net.Sockets;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Command;

internal sealed class ScriptedResponder : IAsyncDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-test-");
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
    private readonly Task _serving;

    /// <param name="answer">Sent once the request has been read to its end; then the connection is closed.</param>
    /// <param name="chunk">Bytes per send.</param>
    /// <param name="readsRequest">False: answers at once, and reads nothing.</param>
    public ScriptedResponder(byte[] answer, int chunk = int.MaxValue, bool readsRequest = true)
    {
        string path = Path.Combine(_folder.FullName, "s");
        _listener.Bind(new UnixDomainSocketEndPoint(path));
        _listener.Listen(1);
        Address = "fastcgi://unix:" + path;
        _serving = ServeAsync(answer, chunk, readsRequest);
    }

    public string Address { get; }

    /// <summary>The parameters received, in order.</summary>
    public List<KeyValuePair<string, string>> Parameters { get; } = [];

    public MemoryStream Body { get; } = new();

    public List<RecordType> Records { get; } = [];

    public static byte[] Record(RecordType type, string content, ushort id = 1, int padding = 0) => Record(type, Encoding.UTF8.GetBytes(content), id, padding);

    public static byte[] Record(RecordType type, byte[] content, ushort id = 1, int padding = 0)
    {
        var record = new byte[RecordHeader.Size + content.Length + padding];
        RecordHeader.Write(record, type, id, content.Length, padding);
        content.CopyTo(record, RecordHeader.Size);
        return record;
    }

    public static byte[] End(uint appStatus = 0, ProtocolStatus status = ProtocolStatus.RequestComplete)
    {
        var content = new byte[EndRequest.Size];
        new EndRequest(appStatus, status).Write(content);
        return Record(RecordType.EndRequest, content);
    }

    /// <summary>A whole answer: one STDOUT record, its end, and END_REQUEST.</summary>
    public static byte[] Answer(string output) => [.. Record(RecordType.Stdout, output, padding: 3), .. Record(RecordType.Stdout, ""), .. End()];

    public string Parameter(string name) => Parameters.Single(p => p.Key == name).Value;

    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        await _serving;
        _folder.Delete(recursive: true);
        Body.Dispose();
    }

    private async Task ServeAsync(byte[] answer, int chunk, bool readsRequest)
    {
        try
        {
            using var socket = await _listener.AcceptAsync();
            if (readsRequest)
            {
                await ReadRequestAsync(socket);
            }
            for (int sent = 0; sent < answer.Length; sent += chunk)
            {
                await socket.SendAsync(answer.AsMemory(sent, Math.Min(chunk, answer.Length - sent)));
            }
            socket.Shutdown(SocketShutdown.Send);
            while (await socket.ReceiveAsync(new byte[4096]) > 0)
            {
            }
        }
        catch (SocketException)
        {
            // The client under test went away, or the test is over.
        }
    }

    private async Task ReadRequestAsync(Socket socket)
    {
        var buffer = new byte[4096];
        var reader = default(RecordReader);
        using var parameters = new MemoryStream();
        for (bool ended = false; !ended;)
        {
            int received = await socket.ReceiveAsync(buffer);
            if (received == 0)
            {
                return;
            }
            for (int position = 0; position < received;)
            {
                if (reader.Read(buffer.AsSpan(position, received - position), out int consumed, out var part) == ReadResult.Done)
                {
                    ended |= Take(part, buffer.AsSpan(position + part.Start, part.Length), parameters);
                }
                position += consumed;
            }
        }
    }

    private bool Take(RecordPart part, ReadOnlySpan<byte> content, MemoryStream parameters)
    {
        if (part.IsFirst)
        {
            Records.Add(part.Type);
        }
        (part.Type == RecordType.Params ? parameters : part.Type == RecordType.Stdin ? Body : Stream.Null).Write(content);
        if (part.ContentLength == 0 && part.Type == RecordType.Params)
        {
            var pairs = parameters.ToArray();
            for (int at = 0; NameValuePairs.Read(pairs, at, out var pair, out int next, out _) == ReadResult.Done; at = next)
            {
                Parameters.Add(new(Encoding.UTF8.GetString(pair.NameIn(pairs)), Encoding.UTF8.GetString(pair.ValueIn(pairs))));
            }
        }
        return part.ContentLength == 0 && part.Type == RecordType.Stdin;
    }
}
