// Feeds bytes to the readers in pieces and writes down what comes out, one line per event. It keeps nothing that depends on how the input was cut.
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

/// <summary>One pass over an input.</summary>
internal sealed class VectorRun(VectorDepth depth)
{
    private const int ParametersMax = 1000;

    private readonly List<string> _events = [];
    private readonly Dictionary<ushort, List<byte>> _params = [];
    private readonly CgiHead _head = new();
    private List<byte> _content = [];
    private RecordReader _reader;
    private RecordPart _last;

    public static IReadOnlyList<string> Feed(VectorFile vector, IEnumerable<ReadOnlyMemory<byte>> pieces) =>
        vector.Depth == VectorDepth.Sequence ? SequenceRun.Feed(vector, pieces).Events : Feed(vector.Depth, pieces);

    public static List<string> Feed(VectorDepth depth, IEnumerable<ReadOnlyMemory<byte>> pieces)
    {
        var run = new VectorRun(depth);
        foreach (ReadOnlyMemory<byte> piece in pieces)
        {
            if (!run.Take(piece.Span))
            {
                run._events.Add($"closed: {run._reader.Fault}");
                return run._events;
            }
        }

        if (run._content.Count > 0 && !run._last.IsLast)
        {
            run._events.Add($"cut {Name(run._last.Type)} {run._last.RequestId} after {run._content.Count} of {run._last.ContentLength}");
        }

        run._events.Add(run._reader.AtRecordStart ? "end between records" : "end inside a record");
        return run._events;
    }

    private bool Take(ReadOnlySpan<byte> input)
    {
        while (true)
        {
            ReadResult result = _reader.Read(input, out int consumed, out RecordPart part);
            if (result != ReadResult.Done)
            {
                Assert.True(result == ReadResult.Faulty || consumed == input.Length, "NeedMore has to consume all of the input");
                return result == ReadResult.NeedMore;
            }

            Assert.Equal(part.IsFirst, _content.Count == 0);
            _content.AddRange(input.Slice(part.Start, part.Length));
            _last = part;
            if (part.IsLast)
            {
                Assert.Equal(part.ContentLength, _content.Count);
                EndRecord(part, [.. _content]);
                _content = [];
            }

            input = input[consumed..];
        }
    }

    private void EndRecord(RecordPart part, byte[] content)
    {
        _events.Add($"{Name(part.Type)} {part.RequestId} {Show(content)}");
        switch (part.Type)
        {
            case RecordType.BeginRequest:
                ShowBegin(part, content);
                break;
            case RecordType.GetValues:
                ShowAnswer(content);
                break;
            case RecordType.Params when depth != VectorDepth.Records:
                if (!_params.TryGetValue(part.RequestId, out List<byte>? joined))
                {
                    _params[part.RequestId] = joined = [];
                }

                joined.AddRange(content);
                if (content.Length == 0)
                {
                    ShowParams([.. joined]);
                    _params.Remove(part.RequestId);
                }

                break;
        }
    }

    private void ShowBegin(RecordPart part, byte[] content)
    {
        FastCgiFault fault = BeginRequest.Check(part.RequestId, part.ContentLength);
        if (fault != FastCgiFault.None)
        {
            _events.Add($"  refused: {fault}");
            return;
        }

        BeginRequest begin = BeginRequest.Read(content);
        _events.Add($"  role {begin.Role}, {(begin.KeepConnection ? "keep" : "close")}");
    }

    private void ShowAnswer(byte[] query)
    {
        var answer = new byte[ManagementValues.ResultSizeMax];
        int length = ManagementValues.WriteResult(query, maxConnections: 1000, maxRequests: 2000, multiplexes: false, answer);
        Assert.Equal(0, length % 8);
        RecordHeader header = RecordHeader.Read(answer);
        Assert.Equal((RecordType.GetValuesResult, 0), (header.Type, header.RequestId));
        Assert.Equal(length, RecordHeader.Size + header.ContentLength + header.PaddingLength);
        _events.Add($"  answer of {header.ContentLength}");
        ShowPairs(answer.AsSpan(RecordHeader.Size, header.ContentLength));
    }

    private void ShowParams(byte[] parameters)
    {
        if (depth == VectorDepth.Pairs)
        {
            ShowPairs(parameters);
            return;
        }

        CgiFault fault = _head.Read(parameters, ParametersMax);
        if (fault != CgiFault.None)
        {
            _events.Add($"  refused: {fault}, {fault.StatusCode()}");
            return;
        }

        _events.Add($"  {Text(_head.Method.In(parameters))} {Text(_head.RequestUri.In(parameters))}{(_head.IsHttps ? " over https" : "")}");
        if (_head.ContentLength >= 0)
        {
            _events.Add($"  length {_head.ContentLength}");
        }

        if (!_head.ContentType.IsEmpty)
        {
            _events.Add($"  type {Text(_head.ContentType.In(parameters))}");
        }

        foreach (HeaderSlice header in _head.Headers)
        {
            _events.Add($"  {HeaderNameMapper.FromVariable(header.NameIn(parameters))}: {Text(header.ValueIn(parameters))}".TrimEnd());
        }
    }

    private void ShowPairs(ReadOnlySpan<byte> stream)
    {
        int position = 0;
        while (position < stream.Length)
        {
            ReadResult result = NameValuePairs.Read(stream, position, out PairRange pair, out position, out FastCgiFault fault);
            if (result != ReadResult.Done)
            {
                _events.Add(result == ReadResult.NeedMore ? "  ends inside a pair" : $"  refused: {fault}");
                return;
            }

            _events.Add($"  {Show(pair.NameIn(stream))} = {Show(pair.ValueIn(stream))}");
        }
    }

    internal static string Name(RecordType type) => Enum.IsDefined(type) ? type.ToString() : $"type-{(byte)type}";

    // "text" up to 200 bytes, then the first bytes and the length; one byte repeated is 'x'*count.
    internal static string Show(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length > 16 && bytes.IndexOfAnyExcept(bytes[0]) < 0)
        {
            return $"\"{Text(bytes[..1])}\"*{bytes.Length}";
        }

        return bytes.Length <= 200 ? $"\"{Text(bytes)}\"" : $"\"{Text(bytes[..16])}\"... {bytes.Length} bytes";
    }

    private static string Text(ReadOnlySpan<byte> bytes)
    {
        var text = new StringBuilder();
        foreach (byte b in bytes)
        {
            _ = b is >= 0x20 and < 0x7F and not (byte)'"' and not (byte)'\\' ? text.Append((char)b) : text.Append(System.Globalization.CultureInfo.InvariantCulture, $"\\x{b:X2}");
        }

        return text.ToString();
    }
}
