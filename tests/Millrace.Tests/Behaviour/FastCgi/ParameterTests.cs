// Hostile parameters: how pairs are coded (FastCGI 1.0 §3.4) and what they say (RFC 3875 §4.1).

using System.Globalization;
using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class ParameterTests
{
    private static byte[] WithParams(byte[] pairs, int recordMax = 65_535) =>
        [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, pairs, recordMax), .. Wire.Record(Wire.Stdin, 1, [])];

    private static byte[] Get(string target = "/", string method = "GET", params (string, string)[] more) => Wire.Pairs(Wire.Get(target, method, more));

    private static void IsAnswered(int status, byte[] pairs, string? refusal = null) => FastCgiBench.Run(bench =>
    {
        FrontEnd front = bench.Connect();
        ReceivedResponse response = bench.Ask(front, WithParams(pairs));
        Assert.Equal((0, status), (response.ProtocolStatus, response.Status));
        Assert.True(refusal is null || bench.Refused(refusal) == 1);
        Assert.Equal(status == 200 ? 1 : 0, bench.Simulation.Handler.Started);
        bench.StillServes(front);
    });

    private static void Says(string expected, byte[] pairs) => FastCgiBench.Run(bench =>
    {
        ReceivedResponse response = bench.Ask(WithParams(pairs));
        Assert.Equal(200, response.Status);
        Assert.Contains(expected, "\n" + response.BodyText, StringComparison.Ordinal);
    });

    // ---- absolute targets and CONNECT ----

    // RFC 9110 §7.4: a trusted gateway says what the connection of the client was, and a target that says something else is refused.
    [Theory]
    [InlineData("https://example.org/a", "on", "https")]
    [InlineData("http://example.org/a", "", "http")]
    public void The_front_servers_scheme_is_that_of_an_absolute_target_RFC9110_7_4(string target, string https, string scheme) =>
        Says($"\npath /a\nquery \nscheme {scheme}\n", Get(target, "GET", ("HTTPS", https)));

    [Theory]
    [InlineData("https://example.org/a", "off")]
    [InlineData("http://example.org/a", "on")]
    public void An_absolute_target_of_another_scheme_is_refused_RFC9110_7_4(string target, string https) =>
        IsAnswered(400, Get(target, "GET", ("HTTPS", https)), "cgi-scheme-disagrees");

    [Fact]
    public void A_2xx_to_CONNECT_has_neither_a_length_nor_a_body_RFC9110_9_3_6() => FastCgiBench.Run(
        static (request, response) =>
        {
            response.ContentLength = 8;
            response.WriteText("not here");
            return default;
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            (string, string)[] parameters = [.. Wire.Get("example.org:443", "CONNECT").Where(static pair => pair.Name != "HTTP_HOST"), ("HTTP_HOST", "example.org:443")];
            ReceivedResponse response = bench.Ask(front, WithParams(Wire.Pairs(parameters)));
            Assert.Equal((200, null, 0), (response.Status, response.Field("Content-Length"), response.Body.Length));
            Assert.Equal("not here", bench.Ask(front, Wire.Request("/")).BodyText);
        });

    // ---- the coding, FastCGI 1.0 §3.4 ----

    [Fact]
    public void Hostile_27_The_longest_lengths_are_refused_without_room_being_made_for_them_FastCGI_3_4() =>
        IsAnswered(400, [.. Get(), .. Wire.LongLength(int.MaxValue), .. Wire.LongLength(int.MaxValue), 65], "cgi-broken-pair");

    [Fact]
    public void Hostile_28_A_pair_beyond_the_end_of_the_stream_is_refused_FastCGI_3_4() => IsAnswered(400, [.. Get(), 5, 200 & 0x7F, 65, 66], "cgi-broken-pair");

    [Fact]
    public void Hostile_29_The_long_form_of_a_short_length_is_taken_FastCGI_3_4()
    {
        byte[] pair = [.. Wire.LongLength(6), .. Wire.LongLength(1), .. "HTTP_A"u8, .. "b"u8];
        FastCgiBench.HoweverCut(WithParams([.. Get(), .. pair]), static (bench, front) => Assert.Contains("\nA: b\n", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(new byte[] { 1 })]
    [InlineData(new byte[] { 0x80 })]
    [InlineData(new byte[] { 0x80, 0, 0 })]
    [InlineData(new byte[] { 1, 0x80, 0 })]
    public void Hostile_30_A_length_that_is_cut_off_by_the_end_is_refused_FastCGI_3_4(byte[] rest) => IsAnswered(400, [.. Get(), .. rest], "cgi-broken-pair");

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(7)]
    [InlineData(65)]
    public void Hostile_31_Pairs_and_lengths_may_straddle_records_FastCGI_3_4(int recordMax) =>
        FastCgiBench.HoweverCut(WithParams(Get("/straddle", "GET", ("HTTP_LONG", new string('v', 200))), recordMax), static (bench, front) =>
        {
            Assert.Contains("\nLong: vvv", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_32_Each_pair_may_have_a_record_of_its_own() => FastCgiBench.Run(static bench =>
    {
        byte[] request =
        [
            .. Wire.BeginRequest(), .. Wire.Get("/cherokee").SelectMany(static pair => Wire.Record(Wire.Params, 1, Wire.Pair(pair.Name, pair.Value))),
            .. Wire.Record(Wire.Params, 1, []), .. Wire.Record(Wire.Stdin, 1, []),
        ];
        Assert.StartsWith("GET /cherokee\n", bench.Ask(request).BodyText, StringComparison.Ordinal);
    });

    [Fact]
    public void Hostile_33_An_empty_name_means_nothing() => IsAnswered(200, [.. Get(), 0, 0, 0, 3, 65, 66, 67]);

    [Fact]
    public void Hostile_33_No_parameters_at_all_are_refused() => IsAnswered(400, [], "cgi-method-missing");

    // ---- what they say, RFC 3875 §4.1 ----

    [Theory]
    [InlineData("a\rb")]
    [InlineData("a\nb")]
    [InlineData("a\r\nX-Forged: 1")]
    [InlineData("a\0b")]
    public void Hostile_34_Controls_that_end_a_line_are_refused_in_a_header_RFC9110_5_5(string value) =>
        IsAnswered(400, Get("/", "GET", ("HTTP_X_A", value)), "cgi-header-value-invalid");

    [Fact]
    public void Hostile_34_Eight_bit_values_are_taken_RFC9110_5_5() => IsAnswered(200, Get("/", "GET", ("HTTP_X_A", "caf\u00e9"), ("REMOTE_USER", "\u00fc\0\r\n")));

    [Theory]
    [InlineData("CONTENT_LENGTH", "0", "1", 400)]
    [InlineData("CONTENT_LENGTH", "0", "0", 200)]
    [InlineData("REQUEST_METHOD", "GET", "POST", 400)]
    [InlineData("REQUEST_METHOD", "GET", "GET", 200)]
    [InlineData("REQUEST_URI", "/", "/other", 400)]
    [InlineData("HTTP_HOST", "example.org", "evil.example", 400)]
    public void Hostile_35_Parameters_that_decide_may_not_disagree(string name, string first, string second, int status) =>
        IsAnswered(status, [.. Get().AsSpan(), .. name == "CONTENT_LENGTH" ? Wire.Pair(name, first) : [], .. Wire.Pair(name, second)]);

    [Fact]
    public void Hostile_35_Repeated_headers_are_all_given_RFC9110_5_2() => Says("\nX-Two: a,b\n", Get("/", "GET", ("HTTP_X_TWO", "a"), ("HTTP_X_TWO", "b")));

    [Theory]
    [InlineData("HTTP_X_USER", "", 400)]
    [InlineData("HTTP_AUTHORIZATION", "nginx/1.22.1", 400)]
    [InlineData("HTTP_X_ANY", "nginx/1.22.1", 200)]
    [InlineData("HTTP_X_ANY", "lighttpd/1.4.69", 400)]
    [InlineData("HTTP_ACCEPT", "", 200)]
    public void Hostile_35_Variables_that_may_be_two_headers_are_refused_RFC3875_4_1_18(string name, string software, int status) =>
        IsAnswered(status, Get("/", "GET", (name, "good"), ("SERVER_SOFTWARE", software), (name, "evil")), status == 400 ? "cgi-ambiguous-header" : null);

    [Theory]
    [InlineData(AmbiguousHeaders.Adaptive, "HTTP_X_ANY", 200)]
    [InlineData(AmbiguousHeaders.Refuse, "HTTP_X_ANY", 400)]
    [InlineData(AmbiguousHeaders.Refuse, "HTTP_COOKIE", 200)]
    [InlineData(AmbiguousHeaders.Adaptive, "HTTP_X_USER", 400)]
    [InlineData(AmbiguousHeaders.Keep, "HTTP_X_USER", 200)]
    public void Hostile_35_What_becomes_of_repeated_variables_is_an_option(AmbiguousHeaders option, string name, int status) => FastCgiBench.Run(
        bench =>
        {
            Assert.Equal(status, bench.Ask(WithParams(Get("/", "GET", (name, "a"), (name, "b")))).Status);
            Assert.Equal(status == 400 ? 1 : 0, bench.Refused("cgi-ambiguous-header"));
        },
        new MillraceOptions { Loops = 1, AmbiguousHeaders = option });

    [Fact]
    public void Hostile_36_Too_many_headers_are_431_RFC6585_5() => IsAnswered(
        431, Get("/", "GET", [.. Enumerable.Range(0, 100).Select(static i => ($"HTTP_X_{i}", ""))]), "cgi-too-many-headers");

    [Fact]
    public void Hostile_36_Too_many_parameters_are_431_RFC6585_5() => IsAnswered(
        431, [.. Get(), .. Enumerable.Range(0, 1_000).SelectMany(static i => Wire.Pair(i.ToString("D4", CultureInfo.InvariantCulture), ""))], "cgi-too-many-parameters");

    [Fact]
    public void Hostile_36_Too_large_parameters_are_431_and_passed_over_RFC6585_5() =>
        IsAnswered(431, [.. Get(), .. Enumerable.Range(0, 20).SelectMany(static i => Wire.Pair("X" + i, new string('x', 10_000)))], "cgi-parameters-too-large");

    [Fact]
    public void Hostile_36_The_limits_themselves_are_allowed() => FastCgiBench.Run(
        static bench =>
        {
            byte[] pairs = Get();
            byte[] full = [.. pairs, .. Wire.Pair("X", new string('x', 2_048 - pairs.Length - 6))];
            Assert.Equal(2_048, full.Length);
            Assert.Equal(200, bench.Ask(WithParams(full)).Status);
            Assert.Equal(431, bench.Ask(WithParams([.. pairs, .. Wire.Pair("X", new string('x', 2_048 - pairs.Length - 5))])).Status);
            Assert.Equal(431, bench.Ask(WithParams([.. full, 0, 0])).Status);
            Assert.Equal(200, bench.Ask(WithParams([.. pairs, .. Enumerable.Repeat(Wire.Pair("Y", ""), 13).SelectMany(static pair => pair)])).Status);
            Assert.Equal(431, bench.Ask(WithParams([.. pairs, .. Enumerable.Repeat(Wire.Pair("Y", ""), 14).SelectMany(static pair => pair)])).Status);
        },
        new MillraceOptions { Loops = 1, MaxHeadBytes = 2_048, MaxRequestLineBytes = 1_024, MaxParameters = 20 });

    [Fact]
    public void Hostile_37_Header_names_without_a_name_are_left_out()
    {
        IsAnswered(200, Get("/", "GET", ("HTTP_", "x"), ("HTTP__", "y")));
        Says("\nA--B: z\n", Get("/", "GET", ("HTTP_A__B", "z")));
    }

    [Fact]
    public void Hostile_38_HTTP_CONTENT_LENGTH_does_not_count_RFC3875_4_1_18() => FastCgiBench.Run(static bench =>
    {
        ReceivedResponse response = bench.Ask(Wire.Request("/", "POST", [1, 2, 3], more: [("HTTP_CONTENT_LENGTH", "1"), ("HTTP_CONTENT_TYPE", "evil/type")]));
        Assert.Contains("\nbody 3 ", response.BodyText, StringComparison.Ordinal);
        Assert.DoesNotContain("evil", response.BodyText, StringComparison.Ordinal);
    });

    [Fact]
    public void Hostile_39_The_header_Proxy_is_dropped() => FastCgiBench.Run(static bench =>
        Assert.DoesNotContain("evil", bench.Ask(Wire.Request("/", more: [("HTTP_PROXY", "http://evil.example/")])).BodyText, StringComparison.Ordinal));

    [Fact]
    public void Hostile_40_Headers_cannot_pass_for_other_variables() => FastCgiBench.Run(static bench =>
    {
        string text = bench.Ask(Wire.Request("/", more: [("HTTP_REMOTE_ADDR", "203.0.113.9"), ("HTTP_HTTPS", "on"), ("HTTP_REMOTE_USER", "root")])).BodyText;
        Assert.Contains("\nremote 192.0.2.7 4711\n", text, StringComparison.Ordinal);
        Assert.Contains("\nscheme http\n", text, StringComparison.Ordinal);
    });

    [Fact]
    public void Hostile_41_Many_header_names_cost_no_more_than_their_number() => FastCgiBench.Run(
        static bench =>
        {
            byte[] pairs = [.. Get(), .. Enumerable.Range(0, 900).SelectMany(static i => Wire.Pair("HTTP_" + Convert.ToString(i, 2).PadLeft(12, '0').Replace('0', 'A').Replace('1', 'B'), "v"))];
            var watch = System.Diagnostics.Stopwatch.StartNew();
            Assert.Equal(200, bench.Ask(WithParams(pairs)).Status);
            Assert.True(watch.ElapsedMilliseconds < 2_000);
        },
        new MillraceOptions { Loops = 1, MaxHeaders = 1_000 });

    [Theory]
    [InlineData("REQUEST_METHOD", "cgi-method-missing")]
    [InlineData("REQUEST_URI", "cgi-target-missing")]
    public void Hostile_42_Without_method_or_target_there_is_no_request(string missing, string refusal) =>
        IsAnswered(400, Wire.Pairs([.. Wire.Get("/").Where(pair => pair.Name != missing)]), refusal);

    [Theory]
    [InlineData("GET /")]
    [InlineData("GE\r\nT")]
    [InlineData("GET ")]
    [InlineData("G\u00c9T")]
    public void Hostile_43_A_method_is_a_token_RFC9110_9_1(string method) => IsAnswered(400, Get("/", method), "cgi-method-not-token");

    // Routing takes post for POST, and a rule of the web server about POST does not.
    [Theory]
    [InlineData("post")]
    [InlineData("gET")]
    [InlineData("M-SEARCh")]
    public void Hostile_43_A_method_in_lower_case_is_refused_as_over_HTTP_RFC9110_9_1(string method) => IsAnswered(501, Get("/", method), "cgi-method-case");

    [Theory]
    [InlineData("http://example.org/a?b", "GET", "\npath /a\nquery ?b\n")]
    [InlineData("http://real.example:81/", "GET", "\nhost real.example:81\n")]
    [InlineData("*", "OPTIONS", "OPTIONS *\npath \n")]
    public void Hostile_44_Absolute_and_asterisk_forms_are_understood_RFC9112_3_2(string target, string method, string expected) => Says(expected, Get(target, method));

    [Theory]
    [InlineData("*", "GET")]
    [InlineData("example.org:443", "GET")]
    [InlineData("no-slash", "GET")]
    [InlineData("/public#/../admin/users", "GET")]
    [InlineData("/a\\b", "GET")]
    public void Hostile_44_Forms_that_do_not_fit_the_method_are_refused_RFC9112_3_2(string target, string method) => IsAnswered(400, Get(target, method), "cgi-target-invalid");

    [Theory]
    [InlineData("/a%2Fb", "/a%2Fb")]
    [InlineData("/a%20b", "/a b")]
    [InlineData("//a//b", "//a//b")]
    [InlineData("/%c3%a9", "/\u00e9")]
    public void Hostile_45_Paths_are_decoded_as_applications_expect(string target, string path) => Says($"\npath {path}\n", Get(target));

    [Theory]
    [InlineData("/a/../b")]
    [InlineData("/a/.")]
    [InlineData("/admin//../users")]
    [InlineData("/%2e%2e/x")]
    [InlineData("/x/..%2fadmin")]
    [InlineData("http://example.org/x/../admin")]
    public void Hostile_45_Dot_segments_are_refused_RFC3986_3_3(string target) => IsAnswered(400, Get(target), "cgi-dot-segments");

    [Theory]
    [InlineData("/a", "/../b")]
    [InlineData("/a/..", "/b")]
    [InlineData("/a/.", "./b")]
    public void Hostile_45_Dot_segments_are_refused_in_a_target_rebuilt_from_its_parts(string scriptName, string pathInfo) =>
        IsAnswered(400, Wire.Pairs(("REQUEST_METHOD", "GET"), ("SCRIPT_NAME", scriptName), ("PATH_INFO", pathInfo)), "cgi-dot-segments");

    [Theory]
    [InlineData("/a//b%20c", "/a/b c", 200)]
    [InlineData("/old", "/new", 400)]
    [InlineData("/public", "/admin", 400)]
    public void Hostile_45_A_path_for_which_the_web_server_chose_other_rules_is_refused(string target, string told, int status) =>
        IsAnswered(status, Get(target, "GET", ("MILLRACE_PATH", told)), status == 400 ? "cgi-path-disagrees" : null);

    [Fact]
    public void Hostile_45_Rewrites_that_the_web_server_tells_in_its_usual_variables_are_its_own_business() =>
        IsAnswered(200, Get("/old", "GET", ("DOCUMENT_URI", "/new"), ("SCRIPT_NAME", "/new")));

    [Theory]
    [InlineData("/%00")]
    [InlineData("/a%00b")]
    public void Hostile_45_A_NUL_in_the_path_is_refused(string target) => FastCgiBench.Run(bench =>
    {
        Assert.Equal(400, bench.Ask(WithParams(Get(target))).Status);
        Assert.Equal(1, bench.Refused("path-escaped-nul"));
    });

    [Theory]
    [InlineData(16_300, 200)]
    [InlineData(16_400, 414)]
    [InlineData(6_000, 414)]     // each byte is escaped with three
    public void Hostile_42_A_target_rebuilt_from_its_parts_has_the_limit_of_a_target_that_is_sent(int length, int status) => FastCgiBench.Run(bench =>
    {
        string path = "/" + new string(length == 6_000 ? ' ' : 'a', length - 1);
        FrontEnd front = bench.Connect();
        Assert.Equal(status, bench.Ask(front, WithParams(Wire.Pairs(("REQUEST_METHOD", "GET"), ("SCRIPT_NAME", path)))).Status);
        Assert.Equal(status == 414 ? 1 : 0, bench.Refused("cgi-target-too-long"));
        bench.StillServes(front);
    });

    [Theory]
    [InlineData("/%")]
    [InlineData("/%zz")]
    [InlineData("/%c0%af")]
    [InlineData("/%c0%ae%c0%ae/x")]
    public void Hostile_45_Escapes_that_are_none_never_become_other_characters(string target) => FastCgiBench.Run(bench =>
    {
        ReceivedResponse response = bench.Ask(WithParams(Get(target)));
        Assert.True(response.Status == 400 || response.BodyText.Contains($"\npath {target}\n", StringComparison.OrdinalIgnoreCase), response.BodyText);
    });

    [Fact]
    public void Hostile_46_The_query_of_REQUEST_URI_wins() =>
        Says("\nquery ?a=1\n", Wire.Pairs(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/x?a=1"), ("QUERY_STRING", "a=2")));

    [Theory]
    [InlineData("localhost", "80", "80")]
    [InlineData("unix:", "", "0")]
    [InlineData("", "99999", "0")]
    [InlineData("1.2.3.4.5", "-1", "0")]
    public void Hostile_47_Addresses_that_are_none_are_null(string address, string port, string known) => Says($"\nremote  {known}\n", Wire.Pairs(
        ("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("HTTP_HOST", "h"), ("REMOTE_ADDR", address), ("REMOTE_PORT", port)));

    [Theory]
    [InlineData("a b")]
    [InlineData("a/b")]
    [InlineData("a@b")]
    [InlineData("[::1")]
    [InlineData("a:99999999")]
    public void Hostile_48_A_bad_Host_is_refused_RFC9112_3_2(string host) =>
        IsAnswered(400, Wire.Pairs(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("HTTP_HOST", host)), "cgi-host-invalid");

    [Theory]
    [InlineData("a.example:443", 200)]
    [InlineData("b.example:443", 400)]
    public void Hostile_48_A_Host_that_is_not_the_target_of_CONNECT_is_refused_RFC9112_3_2_3(string host, int status) => IsAnswered(
        status, Wire.Pairs(("REQUEST_METHOD", "CONNECT"), ("REQUEST_URI", "a.example:443"), ("HTTP_HOST", host)), status == 400 ? "cgi-host-disagrees" : null);

    [Theory]
    [InlineData("-2")]
    [InlineData("-0")]
    [InlineData("+5")]
    [InlineData(" 5")]
    [InlineData("5 ")]
    [InlineData("5,5")]
    [InlineData("0x10")]
    [InlineData("9223372036854775808")]
    [InlineData("18446744073709551621")]
    [InlineData("5\0")]
    public void Hostile_49_CONTENT_LENGTH_is_digits_up_to_2_63_RFC9110_8_6(string length) =>
        IsAnswered(400, Get("/", "POST", ("CONTENT_LENGTH", length)), "cgi-content-length-invalid");

    [Fact]
    public void Hostile_49_A_CONTENT_LENGTH_of_minus_one_is_unknown_as_Caddy_says_it() =>
        Says("\nbody 0 ", Get("/", "POST", ("CONTENT_LENGTH", "-1")));

    [Fact]
    public void Hostile_49_An_empty_CONTENT_LENGTH_is_none_RFC3875_4_1_2() => IsAnswered(200, Get("/", "GET", ("CONTENT_LENGTH", ""), ("CONTENT_TYPE", "")));
}
