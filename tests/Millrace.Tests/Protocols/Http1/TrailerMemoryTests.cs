// What a connection keeps of trailers while it waits for its next request.

using System.Reflection;
using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class TrailerMemoryTests
{
    private static readonly Http1Limits s_limits = new();

    [Theory]
    [InlineData(8, true)]
    [InlineData(9, false)]
    public void A_long_table_of_trailers_ends_with_their_request(int fields, bool stays)
    {
        byte[] request = Encoding.ASCII.GetBytes(
            $"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n{string.Concat(Enumerable.Range(0, fields).Select(static i => $"X-{i}: a\r\n"))}\r\n");
        var sequence = default(RequestSequence);
        var head = new Http1Head();
        int at = 0;
        for (SequenceEvent its = SequenceEvent.NeedMore; its != SequenceEvent.BodyEnd; at += Read(ref sequence, head, request.AsSpan(at), out its))
        {
        }

        Assert.Equal(fields, sequence.Trailers.Length);
        sequence.End();
        Assert.Equal(stays, TableOf(sequence) is not null);
    }

    private static int Read(ref RequestSequence sequence, Http1Head head, ReadOnlySpan<byte> rest, out SequenceEvent its)
    {
        its = sequence.Read(rest, head, s_limits, out int consumed, out _);
        Assert.True(consumed > 0, its.ToString());
        return consumed;
    }

    private static object? TableOf(RequestSequence sequence)
    {
        object? at = sequence;
        foreach (string field in (string[])["_chunks", "Reader", "_trailers", "_fields"])
        {
            at = at!.GetType().GetField(field, BindingFlags.NonPublic | BindingFlags.Public | BindingFlags.Instance)!.GetValue(at);
        }

        return at;
    }
}
