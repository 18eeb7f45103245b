// Hostile input that is a sequence of bytes: every vector of tests/vectors/http1 that belongs to a class, sent whole, cut in
// two at every byte and byte by byte to a server that runs a handler. The classes are listed in the README beside the vectors.

using System.Globalization;
using Millrace.Tests.Protocols.Http1;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class HostileVectorTests
{
    private const int CutsMax = 400;

    public static TheoryData<int, string> Class(int number) =>
        [.. Http1Vector.All.Select((vector, index) => (vector, index)).Where(pair => pair.vector.HostileClass == number).Select(pair => (pair.index, pair.vector.ToString()))];

    [Theory]
    [MemberData(nameof(Class), 1)]
    public void Http_hostile_01_Length_and_encoding_together_RFC9112_6_3(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 2)]
    public void Http_hostile_02_Several_lengths_RFC9112_6_3(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 3)]
    public void Http_hostile_03_Lengths_that_are_no_digits_RFC9110_8_6(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 4)]
    public void Http_hostile_04_Encodings_other_than_chunked_RFC9112_6_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 5)]
    public void Http_hostile_05_Encodings_and_missing_lengths_in_HTTP_1_0_RFC9112_6_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 6)]
    public void Http_hostile_06_Chunk_sizes_that_are_none_RFC9112_7_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 7)]
    public void Http_hostile_07_Chunk_extensions_with_line_ends_and_worse_RFC9112_7_1_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 8)]
    public void Http_hostile_08_Chunk_data_that_does_not_end_where_its_size_says_RFC9112_7_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 9)]
    public void Http_hostile_09_Trailers_that_frame_route_or_authorise_RFC9110_6_5_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 10)]
    public void Http_hostile_10_Bare_line_ends_and_controls_RFC9112_2_2(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 11)]
    public void Http_hostile_11_Field_lines_that_are_none_RFC9112_5(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 12)]
    public void Http_hostile_12_Request_lines_that_are_none_RFC9112_3(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 13)]
    public void Http_hostile_13_Hosts_that_are_none_RFC9112_3_2(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 14)]
    public void Http_hostile_14_Targets_that_two_servers_read_differently_RFC9112_3_2(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 16)]
    public void Http_hostile_16_Unknown_expectations_RFC9110_10_1_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 17)]
    public void Http_hostile_17_Requests_behind_a_refused_one_RFC9112_9_3_2(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 18)]
    public void Http_hostile_18_Upgrades_that_are_none_RFC9110_7_8(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 20)]
    public void Http_hostile_20_Heads_over_their_limits_RFC6585_5(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 22)]
    public void Http_hostile_22_Heads_without_their_end_RFC9112_2_1(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    [Theory]
    [MemberData(nameof(Class), 24)]
    public void Http_hostile_24_Bodies_without_their_end_RFC9112_8(int vector, string name) => IsRuledAsTheVectorSays(vector, name);

    private static void IsRuledAsTheVectorSays(int index, string name)
    {
        Http1Vector vector = Http1Vector.All[index];
        Assert.Equal(name, vector.ToString());
        switch (vector.Verdict.Split(' '))
        {
            case ["done"]:
                IsServed(vector);
                break;
            case ["more"]:
                IsWaitedFor(vector);
                break;
            case [string status, string fault]:
                IsRefused(vector, int.Parse(status, CultureInfo.InvariantCulture), "http-" + Kebab(fault));
                break;
        }
    }

    // Answered once, closed, counted once under its own name; what follows is never taken for a request.
    private static void IsRefused(Http1Vector vector, int status, string refusal)
    {
        byte[] bytes = [.. vector.Bytes, .. "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"u8];
        int connections = 0;
        HttpBench.HoweverCut(
            bytes,
            (bench, peer) =>
            {
                connections++;
                HttpAnswer answer = Assert.Single(peer.Answers);
                Assert.Equal((status, true, "0"), (answer.Status, answer.Closes, answer.Field("Content-Length")));
                Assert.True(peer.IsAtEnd);
                Assert.False(peer.Socket.AnswersLost);
                Assert.Equal((connections, connections), (bench.Refused(refusal), bench.RefusedInAll));
            },
            most: CutsMax);
    }

    // Harmless: the handler is asked, and told exactly what the reader found.
    private static void IsServed(Http1Vector vector) => HttpBench.HoweverCut(
        vector.Bytes,
        (bench, peer) =>
        {
            HttpAnswer answer = Assert.Single(peer.Answers);
            Assert.Equal(200, answer.Status);
            foreach (string fact in vector.Facts.Where(static fact => fact.StartsWith("target ", StringComparison.Ordinal) || fact.StartsWith("authority ", StringComparison.Ordinal)))
            {
                string value = fact[(fact.IndexOf(' ', StringComparison.Ordinal) + 1)..];
                Assert.Contains(fact[0] == 't' ? $" {value}\n" : $"\nhost {value}\n", answer.BodyText, StringComparison.Ordinal);
            }

            Assert.Equal(answer.Closes, peer.IsAtEnd);
            if (!answer.Closes)
            {
                bench.StillServes(peer);
            }
        },
        most: CutsMax);

    // Never an answer as if it were whole, not even when the client ends its side.
    private static void IsWaitedFor(Http1Vector vector) => HttpBench.HoweverCut(
        vector.Bytes,
        static (bench, peer) =>
        {
            Assert.Equal(0, peer.BytesRead);
            peer.Socket.ClientFinish();
            bench.Settle();
            Assert.DoesNotContain(peer.Answers, static answer => answer.Status == 200);
            Assert.True(peer.IsAtEnd);
        },
        options: static options => options.MaxRequestBodySize = null,
        most: CutsMax);

    // ContentLengthSyntax -> content-length-syntax
    private static string Kebab(string name) =>
        string.Concat(name.Select(static (c, i) => char.IsUpper(c) ? (i > 0 ? "-" : "") + char.ToLowerInvariant(c) : c.ToString()));

    [Fact]
    public void Every_class_has_tests_and_every_refused_vector_a_class()
    {
        var names = typeof(HostileVectorTests).Assembly.GetTypes().SelectMany(static type => type.GetMethods()).Select(static method => method.Name).ToList();
        Assert.All(Enumerable.Range(1, 26), number => Assert.Contains(names, name => name.StartsWith($"Http_hostile_{number:D2}_", StringComparison.Ordinal)));
        IEnumerable<Http1Vector> refused = Http1Vector.All.Where(static vector => char.IsDigit(vector.Verdict[0]) && vector.Limits.Equals(new Millrace.Protocols.Http1.Http1Limits()));
        Assert.All(refused, static vector => Assert.True(vector.HostileClass > 0, $"{vector} belongs to no class"));
    }
}
