// Reads one message, head and chunked body, from pieces, the way a connection would, and writes down everything that was found as lines of text.
// The same description is made from the plain readers, so that answers can be compared as text.

using System.Globalization;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

/// <summary>What a reader made of some bytes: status 200 and the facts, 0 for "more", or the status that refuses.</summary>
internal sealed record Reading(int Status, string Fault, List<string> Facts)
{
    internal string Verdict => Status switch
    {
        0 => "more",
        200 => "done",
        _ => $"{Status} {Fault}",
    };

    public override string ToString() => Verdict + "\n" + string.Join('\n', Facts);
}

internal sealed class MessageReading
{
    private static readonly byte[] LineEnds = EscapedBytes.Parse("\\{\\r\\n*64}");

    private readonly Http1Head _head = new();
    private readonly List<byte> _body = [];
    private ChunkedReader _chunked;

    /// <summary>Feeds the bytes cut before each of these positions (ascending), and reads as far as possible after each piece.</summary>
    internal Reading Read(byte[] bytes, in Http1Limits limits, IEnumerable<int> cuts)
    {
        _head.Reset();
        _chunked.Reset(limits);
        _body.Clear();
        List<string>? facts = null;
        int start = 0;
        int headEnd = 0;
        foreach (int end in cuts.Append(bytes.Length))
        {
            // Line ends stand behind the piece: a reader that looks there finds an end too early.
            ReadOnlySpan<byte> buffer = BeforeLineEnds(bytes.AsSpan(start, end - start));
            if (facts is null)
            {
                ReadResult result = _head.Read(buffer, limits, out int consumed);
                if (result == ReadResult.Faulty)
                {
                    return Refused(_head.Fault);
                }

                if (result == ReadResult.NeedMore)
                {
                    continue;
                }

                facts = Describe(_head, buffer);
                start = headEnd = consumed;
                if (!_head.IsChunked)
                {
                    facts.Add("rest " + (bytes.Length - headEnd).ToString(CultureInfo.InvariantCulture));
                    return new Reading(200, "", facts);
                }

                buffer = BeforeLineEnds(bytes.AsSpan(start, end - start));
            }

            ReadResult body = ReadBody(buffer, ref start);
            if (body == ReadResult.Faulty)
            {
                return Refused(_chunked.Fault);
            }

            if (body == ReadResult.Done)
            {
                AddBody(facts, bytes.AsSpan(_trailersFrom), start, bytes.Length);
                return new Reading(200, "", facts);
            }
        }

        return new Reading(0, "", []);
    }

    private int _trailersFrom;

    private ReadResult ReadBody(ReadOnlySpan<byte> rest, ref int start)
    {
        while (true)
        {
            ReadResult result = _chunked.Read(rest, out int consumed, out int dataStart, out int dataLength);
            _body.AddRange(rest.Slice(dataStart, dataLength));
            _trailersFrom = start + _chunked.TrailersStart;
            rest = rest[consumed..];
            start += consumed;
            if (result != ReadResult.NeedMore || dataLength == 0)
            {
                return result;
            }
        }
    }

    private static ReadOnlySpan<byte> BeforeLineEnds(ReadOnlySpan<byte> piece)
    {
        var array = new byte[piece.Length + LineEnds.Length];
        piece.CopyTo(array);
        LineEnds.CopyTo(array, piece.Length);
        return array.AsSpan(0, piece.Length);
    }

    private void AddBody(List<string> facts, ReadOnlySpan<byte> trailers, int end, int length)
    {
        facts.Add("body " + EscapedBytes.Format([.. _body]));
        foreach (HeaderField field in _chunked.Trailers)
        {
            facts.Add($"trailer {EscapedBytes.Format(field.Name(trailers))}: {EscapedBytes.Format(field.Value(trailers))}");
        }

        facts.Add("trailers " + _chunked.Trailers.Length.ToString(CultureInfo.InvariantCulture));
        facts.Add("rest " + (length - end).ToString(CultureInfo.InvariantCulture));
    }

    private static Reading Refused(Http1Fault fault) => new(Http1Faults.StatusOf(fault), fault.ToString(), []);

    internal static List<string> Describe(Http1Head head, ReadOnlySpan<byte> buffer)
    {
        List<string> facts = Describe(
            At(buffer, head.Method), At(buffer, head.Target), At(buffer, head.Path), At(buffer, head.Query), At(buffer, head.Authority),
            head.Form, head.Version, head.KeepAlive, head.ContentLength, head.IsChunked, head.ExpectsContinue, head.IsUpgrade, head.HostIndex);
        foreach (HeaderField field in head.Headers)
        {
            string name = EscapedBytes.Format(field.Name(buffer));
            facts.Add($"header {name}: {EscapedBytes.Format(field.Value(buffer))}");
            bool known = Enumerable.Range(1, KnownHeaders.Count - 1)
                .Any(i => KnownHeaders.NameOf((KnownHeader)i).Equals(name, StringComparison.OrdinalIgnoreCase));
            Assert.Equal(known ? name.ToLowerInvariant() : "", KnownHeaders.NameOf(field.Known).ToLowerInvariant());
        }

        return facts;
        static string At(ReadOnlySpan<byte> buffer, ByteRange range) => EscapedBytes.Format(range.Of(buffer));
    }

    /// <summary>The same reading by the plain readers.</summary>
    internal static Reading ReadPlainly(byte[] bytes, in Http1Limits limits)
    {
        ScalarHead head = ScalarHttp1Reader.Read(bytes, limits);
        if (head.Status != 200)
        {
            return new Reading(head.Status, head.Why, []);
        }

        List<string> facts = Describe(
            Text(head.Method), Text(head.Target), Text(head.Path), Text(head.Query), Text(head.Authority), head.Form, head.Version,
            head.KeepAlive, head.ContentLength, head.IsChunked, head.ExpectsContinue, head.IsUpgrade, head.HostIndex);
        facts.AddRange(head.Headers.Select(h => $"header {Text(h.Name)}: {Text(h.Value)}"));
        int end = head.Consumed;
        if (head.IsChunked)
        {
            ScalarBody body = ScalarChunkedReader.Read(bytes.AsSpan(head.Consumed), limits);
            if (body.Status != 200)
            {
                return new Reading(body.Status, body.Why, []);
            }

            end += body.Consumed;
            facts.Add("body " + Text(body.Data.ToString()));
            facts.AddRange(body.Trailers.Select(t => $"trailer {Text(t.Name)}: {Text(t.Value)}"));
            facts.Add("trailers " + body.Trailers.Count.ToString(CultureInfo.InvariantCulture));
        }

        facts.Add("rest " + (bytes.Length - end).ToString(CultureInfo.InvariantCulture));
        return new Reading(200, "", facts);
        static string Text(string latin1) => EscapedBytes.Format(Encoding.Latin1.GetBytes(latin1));
    }

    private static List<string> Describe(
        string method, string target, string path, string query, string authority, TargetForm form, HttpVersion version,
        bool keepAlive, long length, bool chunked, bool expectsContinue, bool upgrade, int hostIndex) =>
    [
        "method " + method, "target " + target, ("path " + path).TrimEnd(), ("query " + query).TrimEnd(), ("authority " + authority).TrimEnd(),
        $"form {form}", $"version {version}", $"keep-alive {keepAlive}", $"length {length}", $"chunked {chunked}",
        $"continue {expectsContinue}", $"upgrade {upgrade}", $"host-index {hostIndex}",
    ];
}
