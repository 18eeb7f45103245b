// Every vector whole, cut in two at every byte, and byte by byte; and the plain reader beside the fast one on each.

using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1VectorTests
{
    // Vectors longer than this are cut at a thousand places instead of at every byte: reading 128 KiB 128 Ki times is no test of anything.
    private const int EveryCutMax = 2000;

    public static TheoryData<int, string> Vectors() => [.. Http1Vector.All.Select((v, i) => (i, v.ToString()))];

    [Theory]
    [MemberData(nameof(Vectors))]
    public void Vector_is_read_as_written(int index, string name)
    {
        Http1Vector vector = Http1Vector.All[index];
        Reading reading = new MessageReading().Read(vector.Bytes, vector.Limits, []);
        Assert.True(vector.Verdict == reading.Verdict, $"{name}: expected {vector.Verdict}, found {reading}");
        Assert.All(vector.Facts, fact => Assert.Contains(fact.TrimEnd(), reading.Facts.Select(f => f.TrimEnd())));
    }

    [Theory]
    [MemberData(nameof(Vectors))]
    public void Vector_is_read_the_same_wherever_it_is_cut(int index, string name)
    {
        Http1Vector vector = Http1Vector.All[index];
        var reader = new MessageReading();
        string whole = reader.Read(vector.Bytes, vector.Limits, []).ToString();
        int step = vector.Bytes.Length <= EveryCutMax ? 1 : vector.Bytes.Length / 1000;
        for (int cut = 0; cut <= vector.Bytes.Length; cut += step)
        {
            string found = reader.Read(vector.Bytes, vector.Limits, [cut]).ToString();
            Assert.True(whole == found, $"{name}: cut at {cut}: {found}\nwhole: {whole}");
        }

        string bytewise = reader.Read(vector.Bytes, vector.Limits, Enumerable.Range(0, vector.Bytes.Length).Where(i => i % step == 0)).ToString();
        Assert.Equal(whole, bytewise);
    }

    [Theory]
    [MemberData(nameof(Vectors))]
    public void Plain_reader_agrees_on_the_vector_and_on_every_beginning_of_it(int index, string name)
    {
        Http1Vector vector = Http1Vector.All[index];
        var reader = new MessageReading();
        int step = vector.Bytes.Length <= EveryCutMax ? 1 : vector.Bytes.Length / 20;
        for (int length = vector.Bytes.Length; length >= 0; length -= step)
        {
            byte[] beginning = vector.Bytes[..length];
            Reading fast = reader.Read(beginning, vector.Limits, []);
            Reading plain = MessageReading.ReadPlainly(beginning, vector.Limits);
            Assert.True(fast.Status == plain.Status && fast.Facts.SequenceEqual(plain.Facts), $"{name}: first {length} bytes:\nfast: {fast}\nplain: {plain}");
        }
    }

    [Fact]
    public void Every_fault_a_reader_can_raise_has_a_vector()
    {
        Http1Fault[] afterTooManyBytes = [Http1Fault.None, Http1Fault.BodyTooLarge];
        var covered = Http1Vector.All.Select(v => v.Verdict.Split(' ')[^1]).ToHashSet();
        Assert.All(Enum.GetValues<Http1Fault>().Except(afterTooManyBytes), f => Assert.Contains(f.ToString(), covered));
        Assert.True(Http1Vector.All.Count >= 120);
    }

    [Fact]
    public void Every_fault_has_a_status_a_client_understands()
    {
        int[] statuses = [400, 413, 414, 417, 431, 501, 505];
        Assert.All(Enum.GetValues<Http1Fault>().Skip(1), f => Assert.Contains(Http1Faults.StatusOf(f), statuses));
        Assert.All(statuses, s => Assert.Contains(Enum.GetValues<Http1Fault>(), f => Http1Faults.StatusOf(f) == s));
    }
}
