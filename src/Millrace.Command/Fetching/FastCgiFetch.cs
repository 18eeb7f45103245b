// One request to a FastCGI responder over a connection of its own. Sending and receiving run side by side: a responder may
// answer before it has read the body. What the records say is printed as it comes.

using System.Net.Sockets;
using System.Text;
using Millrace.Command.Terminals;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Command.Fetching;

internal sealed class FastCgiFetch(RecordTrace trace, ResponseWriter response, TextWriter errorLog)
{
    private readonly ResponseHead _head = new();
    private readonly Decoder _errorText = Encoding.UTF8.GetDecoder();
    private readonly byte[] _end = new byte[EndRequest.Size];
    private int _endKept;
    private long _bodyLength;
    private bool _hasNoBody;
    private bool _hasAnswered;
    private bool _isErrorLineOpen;
    private EndRequest? _ended;

    /// <returns>The status code of the response.</returns>
    /// <exception cref="CommandFailure">No connection, or no whole response.</exception>
    public async Task<int> RunAsync(ServerAddress address, FetchRequest request, CancellationToken ct)
    {
        _hasNoBody = request.Method == "HEAD";
        using var socket = await address.ConnectAsync(ct);
        using var sending = CancellationTokenSource.CreateLinkedTokenSource(ct);
        var sent = SendAsync(socket, request, sending.Token);
        try
        {
            await ReceiveAsync(socket, ct);
        }
        finally
        {
            if (_isErrorLineOpen)
            {
                errorLog.WriteLine();       // what is said next is not the application's
            }
            await sending.CancelAsync();
            await sent;
        }
        return Conclude();
    }

    private async Task SendAsync(Socket socket, FetchRequest request, CancellationToken ct)
    {
        try
        {
            var records = new RequestRecords(trace);
            await SendAllAsync(socket, records.Head(request), ct);
            await foreach (var record in records.BodyAsync(request.Body, ct))
            {
                await SendAllAsync(socket, record, ct);
            }
        }
        catch (Exception error) when (error is SocketException or OperationCanceledException)
        {
            // The responder takes no more; whether that is a failure, its answer shows.
        }
    }

    private static async ValueTask SendAllAsync(Socket socket, ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        while (bytes.Length > 0)
        {
            bytes = bytes[await socket.SendAsync(bytes, ct)..];
        }
    }

    private async Task ReceiveAsync(Socket socket, CancellationToken ct)
    {
        var buffer = new byte[64 * 1024];
        var reader = default(RecordReader);
        while (_ended is null)
        {
            int received;
            try
            {
                received = await socket.ReceiveAsync(buffer, ct);
            }
            catch (SocketException)
            {
                received = 0; // a reset is an end too
            }
            if (received == 0)
            {
                trace.Closed();
                return;
            }
            for (int position = 0; position < received && _ended is null;)
            {
                var result = reader.Read(buffer.AsSpan(position, received - position), out int consumed, out var part);
                if (result == ReadResult.Faulty)
                {
                    throw ResponseHead.Broken(_hasAnswered ? "bytes follow that are no record, which is how a server shows that it has broken the answer off" : "the server does not speak FastCGI version 1");
                }
                if (result == ReadResult.Done)
                {
                    await TakeAsync(part, buffer.AsMemory(position + part.Start, part.Length), ct);
                }
                position += consumed;
            }
        }
    }

    private async ValueTask TakeAsync(RecordPart part, ReadOnlyMemory<byte> content, CancellationToken ct)
    {
        if (part.IsFirst && part.Type != RecordType.EndRequest)
        {
            trace.Received(part.Type, part.RequestId, part.ContentLength);
        }
        if (part.RequestId != RequestRecords.RequestId)
        {
            return;
        }
        _hasAnswered = true;
        switch (part.Type)
        {
            case RecordType.Stdout:
                await TakeOutputAsync(content, ct);
                break;
            case RecordType.Stderr:
                WriteError(content.Span);
                break;
            case RecordType.EndRequest:
                TakeEnd(part, content.Span);
                break;
        }
    }

    // Characters may be cut by the ends of records.
    private void WriteError(ReadOnlySpan<byte> bytes)
    {
        var text = new char[Encoding.UTF8.GetMaxCharCount(bytes.Length)];
        int length = _errorText.GetChars(bytes, text, flush: false);
        errorLog.Write(CommandConsole.Readable(new string(text, 0, length), keepsLines: true));
        _isErrorLineOpen = length > 0 ? text[length - 1] != '\n' : _isErrorLineOpen;
    }

    private async ValueTask TakeOutputAsync(ReadOnlyMemory<byte> content, CancellationToken ct)
    {
        if (!_head.IsComplete)
        {
            content = content[_head.Read(content.Span)..];
            if (_head.IsComplete)
            {
                response.WriteHead(_head.Status, _head.Lines);
            }
        }
        if (content.Length > 0)
        {
            _bodyLength += content.Length;
            await response.WriteBodyAsync(content, ct);
        }
    }

    private void TakeEnd(RecordPart part, ReadOnlySpan<byte> content)
    {
        if (part.ContentLength != EndRequest.Size)
        {
            throw ResponseHead.Broken($"END_REQUEST carries {part.ContentLength} bytes instead of 8");
        }
        content.CopyTo(_end.AsSpan(_endKept));
        _endKept += content.Length;
        if (part.IsLast)
        {
            var end = EndRequest.Read(_end);
            trace.Received(part.Type, part.RequestId, part.ContentLength, $"app-status={end.AppStatus} {RecordTrace.NameOf(end.Status)}");
            _ended = end;
        }
    }

    private int Conclude()
    {
        if (_ended is not { } end)
        {
            throw ResponseHead.Broken("the server closed the connection before it ended the request");
        }
        if (end.Status != ProtocolStatus.RequestComplete)
        {
            throw new CommandFailure(ExitCode.BrokenResponse, $"The server refused the request: {RecordTrace.NameOf(end.Status)}. {Cure(end.Status)}");
        }
        if (!_head.IsComplete)
        {
            throw ResponseHead.Broken("the request was ended before its headers were complete");
        }
        if (_head.ContentLength is { } length && _bodyLength != length && !_hasNoBody && _head.StatusCode is not (204 or 304))
        {
            throw ResponseHead.Broken(string.Create(System.Globalization.CultureInfo.InvariantCulture, $"its body has {_bodyLength} bytes, and its Content-Length says {length}"));
        }
        if (end.AppStatus != 0)
        {
            throw ResponseHead.Broken($"the application ended it with status {end.AppStatus}, so the body may be cut off");
        }
        return _head.StatusCode;
    }

    private static string Cure(ProtocolStatus status) => status switch
    {
        ProtocolStatus.Overloaded => "It is at its limit of concurrent requests; try again later.",
        ProtocolStatus.UnknownRole => "It is not a responder.",
        _ => "The server's log may say more.",
    };
}
