// Reading and writing allocate nothing once warm: one test per hot operation, by the thread's own counter.

using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1AllocationTests
{
    private const int Rounds = 1000;

    [Fact]
    public void Reading_a_head_allocates_nothing()
    {
        byte[] bytes = Http1Vector.All.Single(v => v.Name == "a browser's request").Bytes;
        var head = new Http1Head();
        Assert.Equal(0, BytesAllocatedBy(() =>
        {
            ReadResult result = head.Read(bytes, new Http1Limits(), out int consumed);
            return result == ReadResult.Done && consumed == bytes.Length;
        }));
    }

    [Fact]
    public void Reading_a_head_in_two_pieces_or_a_short_one_allocates_nothing()
    {
        byte[] bytes = Encoding.ASCII.GetBytes("GET /hello HTTP/1.1\r\nHost: localhost:5000\r\nX-A:b\r\n\r\n");
        var head = new Http1Head();
        Assert.Equal(0, BytesAllocatedBy(() =>
            head.Read(bytes.AsSpan(0, 30), new Http1Limits(), out _) == ReadResult.NeedMore && head.Read(bytes, new Http1Limits(), out _) == ReadResult.Done));
    }

    [Fact]
    public void Refusing_a_head_allocates_nothing()
    {
        byte[] bytes = Encoding.ASCII.GetBytes("GET /hello HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n");
        var head = new Http1Head();
        Assert.Equal(0, BytesAllocatedBy(() =>
        {
            head.Reset();
            return head.Read(bytes, new Http1Limits(), out _) == ReadResult.Faulty;
        }));
    }

    [Fact]
    public void Reading_a_chunked_body_with_trailers_allocates_nothing()
    {
        byte[] bytes = "5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"u8.ToArray();
        var reader = new ChunkedReader(new Http1Limits());
        Assert.Equal(0, BytesAllocatedBy(() =>
        {
            reader.Reset(new Http1Limits());
            return reader.Read(bytes, out int consumed, out _, out int length) == ReadResult.NeedMore && length == 5 &&
                reader.Read(bytes.AsSpan(consumed), out _, out _, out _) == ReadResult.Done && reader.Trailers.Length == 1;
        }));
    }

    private static long BytesAllocatedBy(Func<bool> operation)
    {
        for (int i = 0; i < Rounds; i++)
        {
            Assert.True(operation());
        }

        long before = GC.GetAllocatedBytesForCurrentThread();
        bool all = true;
        for (int i = 0; i < Rounds; i++)
        {
            all &= operation();
        }

        long allocated = GC.GetAllocatedBytesForCurrentThread() - before;
        Assert.True(all);
        return allocated;
    }
}
