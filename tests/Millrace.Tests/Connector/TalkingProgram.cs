// A FastCGI program that answers each request as a test has it do: it knows the request's parameters, and the connection that it has come by.

using System.Net.Sockets;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Command;

namespace Millrace.Tests.Connector;

internal sealed class TalkingProgram : IAsyncDisposable
{
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
    private readonly Func<Visit, Task> _answer;
    private readonly Task _accepting;
    private int _connections;
    private int _requests;
    private int _closed;

    /// <param name="path">Of its socket.</param>
    /// <param name="answer">False at <see cref="Visit.IsKept"/> behind it: the connection is closed.</param>
    public TalkingProgram(string path, Func<Visit, Task> answer)
    {
        _answer = answer;
        Address = "unix:" + path;
        _listener.Bind(new UnixDomainSocketEndPoint(path));
        _listener.Listen(64);
        _accepting = AcceptAsync();
    }

    public string Address { get; }

    public int Connections => Volatile.Read(ref _connections);

    public int Requests => Volatile.Read(ref _requests);

    /// <summary>Connections that have ended.</summary>
    public int Closed => Volatile.Read(ref _closed);

    public static byte[] Whole(string body) => ScriptedResponder.Answer("Content-Type: text/plain\r\n\r\n" + body);

    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        await _accepting;
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                Socket socket = await _listener.AcceptAsync();
                _ = Interlocked.Increment(ref _connections);
                _ = Task.Run(() => ServeAsync(socket));
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // The test is over.
        }
    }

    private async Task ServeAsync(Socket socket)
    {
        try
        {
            while (await ReadRequestAsync(socket) is { } parameters)
            {
                var visit = new Visit(socket, parameters.Text, parameters.Id, Interlocked.Increment(ref _requests));
                await _answer(visit);
                if (!visit.IsKept)
                {
                    return;
                }
            }
        }
        catch (SocketException)
        {
            // The client has gone.
        }
        finally
        {
            socket.Dispose();
            _ = Interlocked.Increment(ref _closed);
        }
    }

    private static async Task<(string Text, ushort Id)?> ReadRequestAsync(Socket socket)
    {
        var reader = default(RecordReader);
        var parameters = new StringBuilder();
        byte[] buffer = new byte[4096];
        while (true)
        {
            int count = await socket.ReceiveAsync(buffer);
            if (count == 0)
            {
                return null;
            }
            for (int at = 0; at < count;)
            {
                bool isDone = reader.Read(buffer.AsSpan(at, count - at), out int consumed, out RecordPart part) == ReadResult.Done;
                if (isDone && part.Type == RecordType.Params)
                {
                    _ = parameters.Append(Encoding.Latin1.GetString(buffer, at + part.Start, part.Length));
                }
                at += consumed;
                if (isDone && part is { Type: RecordType.Stdin, ContentLength: 0 })
                {
                    return (parameters.ToString(), part.RequestId);
                }
            }
        }
    }

    /// <param name="Socket">The connection.</param>
    /// <param name="Parameters">As they came.</param>
    /// <param name="Id">The request's.</param>
    /// <param name="Number">From 1.</param>
    internal sealed record Visit(Socket Socket, string Parameters, ushort Id, int Number)
    {
        private int _at;        // in the header of a record
        private int _rest;      // bytes of its content and padding yet to come

        public bool IsKept { get; set; } = true;

        /// <summary>Sends records, whatever pieces of them: they are this request's, whatever their id says.</summary>
        public async Task SayAsync(byte[] bytes, int chunk = int.MaxValue)
        {
            foreach (byte[] part in bytes.Length == 0 ? [] : bytes.Chunk(chunk))
            {
                _ = await Socket.SendAsync(AsSaid(part));
            }
        }

        /// <summary>What is said, as it is said.</summary>
        public byte[] AsSaid(byte[] records) => [.. records.Select(Next)];

        private byte Next(byte value)
        {
            if (_at == RecordHeader.Size)
            {
                if (_rest-- > 0)
                {
                    return value;
                }
                (_at, _rest) = (0, 0);
            }
            value = _at switch { 2 => (byte)(Id >> 8), 3 => (byte)Id, _ => value };
            _rest += _at switch { 4 => value << 8, 5 or 6 => value, _ => 0 };
            _at++;
            return value;
        }

        /// <summary>Ends with the types of the records that come until the connection ends.</summary>
        public async Task<List<RecordType>> HearToEndAsync()
        {
            var types = new List<RecordType>();
            var reader = default(RecordReader);
            byte[] buffer = new byte[4096];
            for (int count; (count = await Socket.ReceiveAsync(buffer)) > 0;)
            {
                for (int at = 0; at < count;)
                {
                    if (reader.Read(buffer.AsSpan(at, count - at), out int consumed, out RecordPart part) == ReadResult.Done)
                    {
                        types.Add(part.Type);
                    }
                    at += consumed;
                }
            }
            IsKept = false;
            return types;
        }
    }
}
