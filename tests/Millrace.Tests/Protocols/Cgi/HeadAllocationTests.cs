// Reading a request's records and its head allocates nothing once it is warm. Each request is read in the same way as the one
// before: what the code allocates it allocates in all of them, where the runtime (the first use of a type in new code, when another
// test has kept it from making that earlier) does so in one.
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Cgi;

public sealed class HeadAllocationTests
{
    private const int Rounds = 2000;
    private const int RuntimeAllocations = 2;

    [Fact]
    public void Reading_records_head_names_and_path_of_a_request_from_nginx_allocates_nothing()
    {
        byte[] wire = CgiParameters.WriteRequest(CgiParameters.Write(CgiParameters.NginxGet));
        var head = new CgiHead();
        var path = new byte[200];
        Assert.Equal(Rounds, Serve(wire, head, path, Rounds));

        long[] allocated = new long[Rounds];
        for (int round = 0; round < Rounds; round++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            int served = Serve(wire, head, path, 1);
            allocated[round] = GC.GetAllocatedBytesForCurrentThread() - before;
            Assert.Equal(1, served);
        }

        Assert.InRange(allocated.Count(static bytes => bytes > 0), 0, RuntimeAllocations);
    }

    private static int Serve(byte[] wire, CgiHead head, byte[] path, int rounds)
    {
        var reader = default(RecordReader);
        int served = 0;
        for (int round = 0; round < rounds; round++)
        {
            ReadOnlySpan<byte> input = wire;
            while (reader.Read(input, out int consumed, out RecordPart part) == ReadResult.Done)
            {
                if (part.Type == RecordType.Params && part.Length > 0 && ReadHead(input.Slice(part.Start, part.Length), head, path))
                {
                    served++;
                }

                input = input[consumed..];
            }
        }

        return served;
    }

    private static bool ReadHead(ReadOnlySpan<byte> parameters, CgiHead head, byte[] path)
    {
        if (head.Read(parameters, 100) != CgiFault.None)
        {
            return false;
        }

        int nameLength = 0;
        foreach (HeaderSlice header in head.Headers)
        {
            nameLength += HeaderNameMapper.FromVariable(header.NameIn(parameters)).Length;
        }

        ReadOnlySpan<byte> target = head.RequestUri.In(parameters);
        TargetPath.Split(target, out Slice rawPath, out _);
        return nameLength > 0 && TargetPath.TryDecode(rawPath.In(target), path, out int length) && length == rawPath.Length;
    }
}
