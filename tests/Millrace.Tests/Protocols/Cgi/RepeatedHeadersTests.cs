// Headers whose variable is there more than once (RFC 3875 §4.1.18): X-User, X_User and X.User of a client may all be HTTP_X_USER, and so may a second X-User.
using System.Diagnostics;
using System.Globalization;
using Millrace.Protocols.Cgi;

namespace Millrace.Tests.Protocols.Cgi;

public sealed class RepeatedHeadersTests
{
    private static CgiFault Judge(HeaderRepeats repeats, params IEnumerable<(string Name, string Value)> more) =>
        new CgiHead { Repeats = repeats, HeaderCountMax = 10_000 }.Read(CgiParameters.Write([("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), .. more]), 20_000);

    [Theory]
    [InlineData("HTTP_X_USER")]
    [InlineData("HTTP_AUTHORIZATION")]
    [InlineData("HTTP_X_REAL_IP")]
    [InlineData("HTTP_X_FORWARDED_PROTO")]
    [InlineData("HTTP_REMOTE_USER")]
    public void Field_of_one_value_is_ambiguous_when_two_differ(string name)
    {
        Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Adaptive, (name, "good"), ("HTTP_ACCEPT", "*/*"), (name, "evil")));
        Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Refuse, (name, "good"), (name, "evil")));
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Keep, (name, "good"), (name, "evil")));
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Adaptive, (name, "same"), (name, "same")));
    }

    [Theory]
    [InlineData("HTTP_X_USER", "HTTP_X-USER")]
    [InlineData("HTTP_X_USER", "HTTP_x_user")]
    [InlineData("HTTP_X-User", "HTTP_x_uSER")]
    public void Names_that_become_one_header_are_one(string first, string second) => Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Adaptive, (first, "good"), (second, "evil")));

    [Fact]
    public void Fields_that_are_lists_may_be_repeated_RFC9110_5_3()
    {
        foreach (HeaderRepeats repeats in Enum.GetValues<HeaderRepeats>())
        {
            Assert.Equal(CgiFault.None, Judge(repeats, ("HTTP_COOKIE", "a=1"), ("HTTP_ACCEPT", "a/b"), ("HTTP_X_FORWARDED_FOR", "192.0.2.1"), ("HTTP_COOKIE", "b=2"), ("HTTP_ACCEPT", "c/d"), ("HTTP_X_FORWARDED_FOR", "192.0.2.2")));
        }
    }

    [Fact]
    public void Field_that_nobody_knows_may_be_repeated_unless_the_option_says_no()
    {
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Adaptive, ("HTTP_X_MANY", "one"), ("HTTP_X_MANY", "two")));
        Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Refuse, ("HTTP_X_MANY", "one"), ("HTTP_X_MANY", "two")));
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Keep, ("HTTP_X_MANY", "one"), ("HTTP_X_MANY", "two")));
    }

    [Theory]
    [InlineData("lighttpd/1.4.69", CgiFault.AmbiguousHeader)]
    [InlineData("lighttpd", CgiFault.AmbiguousHeader)]
    [InlineData("nginx/1.22.1", CgiFault.None)]
    [InlineData("", CgiFault.None)]
    public void Web_server_that_joins_repeated_fields_has_sent_two_different_ones(string software, CgiFault expected)
    {
        Assert.Equal(expected, Judge(HeaderRepeats.Adaptive, ("SERVER_SOFTWARE", software), ("HTTP_X_MANY", "one"), ("HTTP_X_MANY", "two")));
        Assert.Equal(expected, Judge(HeaderRepeats.Adaptive, ("HTTP_X_FORWARDED_FOR", "192.0.2.1"), ("HTTP_X_FORWARDED_FOR", "192.0.2.2"), ("SERVER_SOFTWARE", software)));
    }

    // A router has the names as they came. Nobody is one for saying so: an application that has none is asked by web servers.
    [Theory]
    [InlineData(true, "millrace-router", CgiFault.None)]
    [InlineData(false, "millrace-router", CgiFault.AmbiguousHeader)]
    [InlineData(true, "millrace-router/1", CgiFault.AmbiguousHeader)]
    [InlineData(true, "nginx/1.22.1", CgiFault.AmbiguousHeader)]
    [InlineData(true, "lighttpd/1.4.69", CgiFault.AmbiguousHeader)]
    [InlineData(true, "", CgiFault.AmbiguousHeader)]
    public void Variables_of_a_router_that_has_the_request_over_HTTP_are_lines_of_one_field(bool isRouted, string software, CgiFault expected)
    {
        foreach (HeaderRepeats repeats in (HeaderRepeats[])[HeaderRepeats.Adaptive, HeaderRepeats.Refuse])
        {
            var head = new CgiHead { Repeats = repeats, IsRouted = isRouted };
            byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("SERVER_SOFTWARE", software), ("HTTP_X_USER", "one"), ("HTTP_X_USER", "two"));

            Assert.Equal(expected, head.Read(parameters, 100));
            Assert.Equal(2, head.Headers.Length);
        }
    }

    [Fact]
    public void Headers_that_do_not_reach_the_application_are_not_judged() =>
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Refuse, ("HTTP_PROXY", "a"), ("HTTP_PROXY", "b"), ("HTTP_CONNECTION", "close"), ("HTTP_CONNECTION", "x"), ("HTTP_X.USER", "a"), ("HTTP_X_USER", "b")));

    [Theory]
    [InlineData(2)]
    [InlineData(63)]
    [InlineData(64)]
    [InlineData(65)]
    [InlineData(1_000)]
    public void Repeated_one_is_found_among_any_number(int count)
    {
        (string, string)[] headers = [.. Enumerable.Range(0, count).Select(static i => (string.Create(CultureInfo.InvariantCulture, $"HTTP_X_{i}"), "v"))];
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Refuse, headers));
        foreach (int place in (int[])[0, count / 2, count - 1])
        {
            Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Refuse, [.. headers, (headers[place].Item1, "w")]));
            Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Refuse, [.. headers, (headers[place].Item1, "v")]));
        }
    }

    // Names as one chooses them who knows what a short list is told apart by: of one length, with one middle and one end, which differ late.
    private static (string Name, string Value)[] Meeting(int count, int length, int place) =>
        [.. Enumerable.Range(0, count).Select(i => ("HTTP_" + new string('A', place) + i.ToString("D2", CultureInfo.InvariantCulture) + new string('A', length - place - 2), "v"))];

    [Theory]
    [InlineData(2)]
    [InlineData(16)]
    [InlineData(17)]
    [InlineData(18)]
    [InlineData(60)]
    public void Repeated_one_is_found_among_names_that_pass_for_each_other(int count)
    {
        (string Name, string Value)[] headers = Meeting(count, 40, 36);
        Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Refuse, headers));
        foreach (int place in (int[])[0, count / 2, count - 1])
        {
            Assert.Equal(CgiFault.AmbiguousHeader, Judge(HeaderRepeats.Refuse, [.. headers, (headers[place].Name, "w")]));
            Assert.Equal(CgiFault.None, Judge(HeaderRepeats.Refuse, [.. headers, (headers[place].Name, "v")]));
        }
    }

    // Compared one with all others it would be some twenty times as much.
    [Fact]
    public void Few_names_that_are_made_to_meet_cost_what_as_many_others_do()
    {
        TimeSpan others = Time(Meeting(60, 480, 1), 50);
        Assert.True(Time(Meeting(60, 480, 476), 50) < others * 5);
    }

    // All of one length, equal at their ends and in their middle. In proportion it would take eight times as long, compared one with all others sixty-four times.
    [Fact]
    public void Names_that_look_alike_cost_in_proportion_to_their_number()
    {
        static TimeSpan TimeOf(int count) =>
            Time(Enumerable.Range(0, count).Select(static i => (string.Create(CultureInfo.InvariantCulture, $"HTTP_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_{i:D5}_AAAA"), "v")), 20);

        _ = TimeOf(1_000);
        Assert.True(TimeOf(8_000) < TimeOf(1_000) * 30);
    }

    private static TimeSpan Time(IEnumerable<(string Name, string Value)> headers, int times)
    {
        byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), .. headers]);
        var head = new CgiHead { Repeats = HeaderRepeats.Refuse, HeaderCountMax = 10_000 };
        TimeSpan best = TimeSpan.MaxValue;
        foreach (int _ in Enumerable.Range(0, times))
        {
            long start = Stopwatch.GetTimestamp();
            Assert.Equal(CgiFault.None, head.Read(parameters, 20_000));
            TimeSpan time = Stopwatch.GetElapsedTime(start);
            best = time < best ? time : best;
        }

        return best;
    }
}
