// The answer to GET_VALUES (FastCGI 1.0 §4.1). One record in, one record out; nothing is remembered.
using System.Buffers.Text;

namespace Millrace.Protocols.FastCgi;

/// <summary>Answers GET_VALUES with a GET_VALUES_RESULT (FastCGI 1.0 §4.1).</summary>
public static class ManagementValues
{
    /// <summary>Room that <see cref="WriteResult"/> needs, in bytes, whatever is asked.</summary>
    public const int ResultSizeMax = 128;

    [Flags]
    private enum Answered
    {
        None = 0,
        MaxConnections = 1,
        MaxRequests = 2,
        Multiplexes = 4,
    }

    /// <summary>
    /// Writes the whole GET_VALUES_RESULT record: head, pairs, zero padding to a multiple of 8. Only names that were asked for are answered, unknown ones are left out
    /// (§4.1), a name asked more than once is answered once, and a pair that is broken ends the reading.
    /// </summary>
    /// <param name="query">Content of the GET_VALUES record; values in it are ignored.</param>
    /// <param name="maxConnections">FCGI_MAX_CONNS: connections taken at the same time.</param>
    /// <param name="maxRequests">FCGI_MAX_REQS: requests taken at the same time.</param>
    /// <param name="multiplexes">FCGI_MPXS_CONNS: whether a connection takes several requests at the same time.</param>
    /// <param name="destination">At least <see cref="ResultSizeMax"/> bytes.</param>
    /// <returns>Bytes written.</returns>
    public static int WriteResult(ReadOnlySpan<byte> query, int maxConnections, int maxRequests, bool multiplexes, Span<byte> destination)
    {
        var answered = Answered.None;
        int end = RecordHeader.Size;
        int position = 0;
        while (NameValuePairs.Read(query, position, out PairRange pair, out position, out _) == ReadResult.Done)
        {
            ReadOnlySpan<byte> name = pair.NameIn(query);
            Answered asked = Recognise(name);
            if ((asked & ~answered) != 0)
            {
                answered |= asked;
                int value = asked switch
                {
                    Answered.MaxConnections => maxConnections,
                    Answered.MaxRequests => maxRequests,
                    _ => multiplexes ? 1 : 0,
                };
                end += WritePair(destination[end..], name, value);
            }
        }

        int contentLength = end - RecordHeader.Size;
        int paddingLength = RecordHeader.PaddingFor(contentLength);
        RecordHeader.Write(destination, RecordType.GetValuesResult, RecordHeader.NullRequestId, contentLength, paddingLength);
        destination.Slice(end, paddingLength).Clear();
        return end + paddingLength;
    }

    private static Answered Recognise(ReadOnlySpan<byte> name) =>
        name.SequenceEqual("FCGI_MAX_CONNS"u8) ? Answered.MaxConnections
        : name.SequenceEqual("FCGI_MAX_REQS"u8) ? Answered.MaxRequests
        : name.SequenceEqual("FCGI_MPXS_CONNS"u8) ? Answered.Multiplexes
        : Answered.None;

    private static int WritePair(Span<byte> destination, ReadOnlySpan<byte> name, int value)
    {
        Span<byte> digits = stackalloc byte[11];
        Utf8Formatter.TryFormat(value, digits, out int length);
        return NameValuePairs.Write(destination, name, digits[..length]);
    }
}
