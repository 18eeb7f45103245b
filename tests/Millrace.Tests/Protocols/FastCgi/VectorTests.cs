// Every file in tests/vectors/fastcgi, fed whole, in two pieces cut at every byte, and byte by byte: the events are the same.
namespace Millrace.Tests.Protocols.FastCgi;

public sealed class VectorTests
{
    // Long inputs are cut at every byte near both ends and at every 211th between.
    private const int EveryByteUpTo = 3000;
    private const int CoarseStep = 211;

    public static TheoryData<string> Files => [.. Directory.EnumerateFiles(VectorFile.Folder, "*.vec").Select(path => Path.GetFileName(path)).Order(StringComparer.Ordinal)];

    [Theory]
    [MemberData(nameof(Files))]
    public void Vector_gives_its_events_whole(string file)
    {
        VectorFile vector = VectorFile.Load(file);
        Assert.Equal(vector.Expected, VectorRun.Feed(vector, [vector.Input]));
    }

    [Theory]
    [MemberData(nameof(Files))]
    public void Vector_gives_the_same_events_cut_in_two_anywhere(string file)
    {
        VectorFile vector = VectorFile.Load(file);
        foreach (int cut in Cuts(vector.Input.Length))
        {
            IReadOnlyList<string> events = VectorRun.Feed(vector, [vector.Input.AsMemory(0, cut), vector.Input.AsMemory(cut)]);
            Assert.True(vector.Expected.SequenceEqual(events), $"cut at {cut}:\n{string.Join('\n', events)}");
        }
    }

    [Theory]
    [MemberData(nameof(Files))]
    public void Vector_gives_the_same_events_byte_by_byte(string file)
    {
        VectorFile vector = VectorFile.Load(file);
        Assert.Equal(vector.Expected, VectorRun.Feed(vector, Enumerable.Range(0, vector.Input.Length).Select(at => (ReadOnlyMemory<byte>)vector.Input.AsMemory(at, 1))));
    }

    [Fact]
    public void There_are_at_least_sixty_vectors() => Assert.InRange(Files.Count, 60, 1000);

    private static IEnumerable<int> Cuts(int length)
    {
        for (int cut = 1; cut < length; cut += cut < EveryByteUpTo || cut > length - EveryByteUpTo / 6 ? 1 : CoarseStep)
        {
            yield return cut;
        }
    }
}
