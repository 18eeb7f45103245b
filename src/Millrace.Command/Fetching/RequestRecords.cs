// Writes one request as FastCGI records: BEGIN_REQUEST · PARAMS* · PARAMS(0) · STDIN* · STDIN(0). Knows the protocol, not
// the socket.

using System.Buffers;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Command.Fetching;

internal sealed class RequestRecords(RecordTrace trace)
{
    /// <summary>The id of the only request on the connection, as the web servers choose it.</summary>
    public const ushort RequestId = 1;

    private const int StdinSizeMax = 32 * 1024;

    /// <summary>Everything ahead of the body.</summary>
    public ReadOnlyMemory<byte> Head(FetchRequest request)
    {
        var output = new ArrayBufferWriter<byte>();
        Span<byte> begin = stackalloc byte[BeginRequest.Size];
        new BeginRequest(Role.Responder, KeepConnection: false).Write(begin);
        Append(output, RecordType.BeginRequest, begin, "role=RESPONDER");

        byte[] pairs = Pairs(CgiParameters.Of(request));
        for (int start = 0; start < pairs.Length; start += RecordHeader.ContentLengthMax)
        {
            Append(output, RecordType.Params, pairs.AsSpan(start, Math.Min(RecordHeader.ContentLengthMax, pairs.Length - start)));
        }
        Append(output, RecordType.Params, []);
        return output.WrittenMemory;
    }

    /// <summary>The body, cut into records, and the end of the stream.</summary>
    public async IAsyncEnumerable<ReadOnlyMemory<byte>> BodyAsync(Stream? body, [System.Runtime.CompilerServices.EnumeratorCancellation] CancellationToken ct)
    {
        var output = new ArrayBufferWriter<byte>();
        var chunk = new byte[StdinSizeMax];
        int length;
        while (body is not null && (length = await body.ReadAtLeastAsync(chunk, chunk.Length, throwOnEndOfStream: false, ct)) > 0)
        {
            Append(output, RecordType.Stdin, chunk.AsSpan(0, length));
            yield return output.WrittenMemory;
            output.ResetWrittenCount();
        }
        Append(output, RecordType.Stdin, []);
        yield return output.WrittenMemory;
    }

    private byte[] Pairs(IEnumerable<KeyValuePair<string, string>> parameters)
    {
        var output = new ArrayBufferWriter<byte>();
        foreach (var (name, value) in parameters)
        {
            trace.SentPair(name, value);
            byte[] nameBytes = Encoding.UTF8.GetBytes(name);
            byte[] valueBytes = Encoding.UTF8.GetBytes(value);
            output.Advance(NameValuePairs.Write(output.GetSpan(NameValuePairs.SizeOf(nameBytes.Length, valueBytes.Length)), nameBytes, valueBytes));
        }
        return output.WrittenSpan.ToArray();
    }

    private void Append(ArrayBufferWriter<byte> output, RecordType type, ReadOnlySpan<byte> content, string? detail = null)
    {
        int padding = RecordHeader.PaddingFor(content.Length);
        var record = output.GetSpan(RecordHeader.Size + content.Length + padding);
        RecordHeader.Write(record, type, RequestId, content.Length, padding);
        content.CopyTo(record[RecordHeader.Size..]);
        record.Slice(RecordHeader.Size + content.Length, padding).Clear();
        output.Advance(RecordHeader.Size + content.Length + padding);
        trace.Sent(type, RequestId, content.Length, detail);
    }
}
