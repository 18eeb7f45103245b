// Reading a request's records and its head allocates nothing once it is warm.
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Cgi;

public sealed class HeadAllocationTests
{
    private const int Rounds = 2000;

    [Fact]
    public void Reading_records_head_names_and_path_of_a_request_from_nginx_allocates_nothing()
    {
        byte[] wire = CgiParameters.WriteRequest(CgiParameters.Write(CgiParameters.NginxGet));
        var head = new CgiHead();
        var path = new byte[200];
        Assert.Equal(Rounds, Serve(wire, head, path, Rounds));

        long before = GC.GetAllocatedBytesForCurrentThread();
        int served = Serve(wire, head, path, Rounds);
        long allocated = GC.GetAllocatedBytesForCurrentThread() - before;
        Assert.Equal((Rounds, 0L), (served, allocated));
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
