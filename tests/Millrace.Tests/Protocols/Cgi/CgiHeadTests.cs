// The head of a request from its CGI variables: what the vectors in tests/vectors/fastcgi/head-* do not show.
using System.Text;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.Cgi;

public sealed class CgiHeadTests
{
    private const int ParametersMax = 100;

    [Fact]
    public void Request_from_nginx_is_read_whole_RFC3875_4_1()
    {
        byte[] parameters = CgiParameters.Write(CgiParameters.NginxGet);
        var head = new CgiHead();
        Assert.Equal(CgiFault.None, head.Read(parameters, ParametersMax));
        string Text(Slice slice) => Encoding.Latin1.GetString(slice.In(parameters));
        Assert.Equal("GET", Text(head.Method));
        Assert.Equal("/api/items/42?x=1&y=2", Text(head.RequestUri));
        Assert.Equal("/api/items/42", Text(head.ScriptName));
        Assert.False(head.PathInfo.IsPresent);
        Assert.Equal("x=1&y=2", Text(head.QueryString));
        Assert.Equal("HTTP/1.1", Text(head.Protocol));
        Assert.Equal("example.com:8080", Text(head.Host));
        Assert.True(head.ServerName.IsPresent && head.ServerName.IsEmpty);
        Assert.Equal("8080", Text(head.ServerPort));
        Assert.Equal("192.0.2.1", Text(head.ServerAddress));
        Assert.Equal("198.51.100.4", Text(head.RemoteAddress));
        Assert.Equal("51342", Text(head.RemotePort));
        Assert.True(head.ContentType.IsPresent && head.ContentType.IsEmpty);
        Assert.Equal(-1, head.ContentLength);
        Assert.False(head.IsHttps);
        Assert.Equal(["Host", "User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Cookie"], HeaderNames(head, parameters));
        Assert.Equal(CgiParameters.NginxGet.Length, head.Parameters.Length);
    }

    [Fact]
    public void All_variables_are_listed_in_order_whatever_becomes_of_them()
    {
        (string Name, string Value)[] pairs =
            [("REQUEST_METHOD", "GET"), ("SSL_PROTOCOL", "TLSv1.3"), ("", "nameless"), ("HTTP_PROXY", "dropped"), ("REQUEST_URI", "/"), ("SSL_PROTOCOL", "again")];
        byte[] parameters = CgiParameters.Write(pairs);
        var head = new CgiHead();
        Assert.Equal(CgiFault.None, head.Read(parameters, ParametersMax));
        var read = new List<(string, string)>();
        foreach (PairRange pair in head.Parameters)
        {
            read.Add((Encoding.Latin1.GetString(pair.NameIn(parameters)), Encoding.Latin1.GetString(pair.ValueIn(parameters))));
        }

        Assert.Equal(pairs, read);
    }

    // `include fastcgi_params;` and below it a line of one's own, as nginx has it overridden.
    [Fact]
    public void Of_a_variable_that_is_there_twice_the_last_value_counts()
    {
        (string Name, string Value)[] first =
        [
            ("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_PORT", "1"), ("SERVER_ADDR", "192.0.2.2"), ("SERVER_NAME", "a"), ("SERVER_PORT", "2"), ("CONTENT_TYPE", "text/a"),
            ("HTTPS", "on"), ("REQUEST_SCHEME", "https"), ("SERVER_PROTOCOL", "HTTP/1.0"), ("QUERY_STRING", "a"), ("SCRIPT_NAME", "/a"), ("PATH_INFO", "/a"),
        ];
        (string Name, string Value)[] last =
        [
            ("REMOTE_ADDR", "198.51.100.1"), ("REMOTE_PORT", "3"), ("SERVER_ADDR", "198.51.100.2"), ("SERVER_NAME", "b"), ("SERVER_PORT", "4"), ("CONTENT_TYPE", "text/b"),
            ("HTTPS", "off"), ("REQUEST_SCHEME", "http"), ("SERVER_PROTOCOL", "HTTP/1.1"), ("QUERY_STRING", "b"), ("SCRIPT_NAME", "/b"), ("PATH_INFO", "/b"),
        ];
        byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), .. first, .. last]);
        var head = new CgiHead();
        Assert.Equal(CgiFault.None, head.Read(parameters, ParametersMax));
        Slice[] found =
        [
            head.RemoteAddress, head.RemotePort, head.ServerAddress, head.ServerName, head.ServerPort, head.ContentType, head.Protocol, head.QueryString, head.ScriptName, head.PathInfo,
        ];
        Assert.Equal(last.Where(static pair => pair.Name is not ("HTTPS" or "REQUEST_SCHEME")).Select(static pair => pair.Value), found.Select(slice => Encoding.Latin1.GetString(slice.In(parameters))));
        Assert.False(head.IsHttps);
    }

    [Fact]
    public void Nothing_of_the_request_before_remains()
    {
        var head = new CgiHead();
        byte[] full = CgiParameters.Write(
            [.. CgiParameters.NginxGet.Where(pair => pair.Name != "CONTENT_LENGTH"), ("CONTENT_LENGTH", "5"), ("HTTPS", "on"), ("PATH_INFO", "/x"), ("HTTP_X_LAST", "1")]);
        Assert.Equal(CgiFault.None, head.Read(full, ParametersMax));
        Assert.True(head.IsHttps && head.ContentLength == 5 && head.PathInfo.IsPresent);

        Assert.Equal(CgiFault.None, head.Read(CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/")), ParametersMax));
        Slice[] absent = [head.ScriptName, head.PathInfo, head.QueryString, head.Protocol, head.Host, head.ServerName, head.ServerPort, head.ServerAddress, head.RemoteAddress,
            head.RemotePort, head.ContentType];
        Assert.All(absent, slice => Assert.False(slice.IsPresent));
        Assert.Equal((-1L, false, 0, 2), (head.ContentLength, head.IsHttps, head.Headers.Length, head.Parameters.Length));

        Assert.Equal(CgiFault.None, head.Read(full, ParametersMax));
        head.Reset();
        Assert.Equal((-1L, false, 0, 0, false), (head.ContentLength, head.IsHttps, head.Headers.Length, head.Parameters.Length, head.Method.IsPresent));
    }

    [Theory]
    [InlineData(99, CgiFault.TooManyParameters)]
    [InlineData(100, CgiFault.None)]
    public void Number_of_variables_is_limited(int limit, CgiFault expected)
    {
        var pairs = Enumerable.Range(0, 98).Select(i => ($"HTTP_X_{i}", "v"));
        byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), .. pairs]);
        var head = new CgiHead();
        Assert.Equal(expected, head.Read(parameters, limit));
        Assert.Equal(limit, head.Parameters.Length);
    }

    [Theory]
    [InlineData(99, CgiFault.TooManyHeaders)]
    [InlineData(100, CgiFault.None)]
    public void Number_of_headers_is_limited_those_that_are_dropped_included_RFC6585_5(int limit, CgiFault expected)
    {
        var pairs = Enumerable.Range(0, 100).Select(static i => (i % 2 == 0 ? $"HTTP_X_{i}" : "HTTP_PROXY", "v"));
        byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("CONTENT_LENGTH", "0"), .. pairs, ("SERVER_NAME", "a")]);
        Assert.Equal(expected, new CgiHead { HeaderCountMax = limit }.Read(parameters, 1_000));
    }

    [Theory]
    [InlineData("http://real.example:8080/x", "other.example", "real.example:8080")]
    [InlineData("HTTP://real.example?x", "other.example", "real.example")]
    [InlineData("http://real.example", null, "real.example")]
    [InlineData("/x", "other.example:81", "other.example:81")]
    public void Host_of_an_absolute_target_stands_in_for_the_header_RFC9112_3_2_2(string target, string? host, string expected)
    {
        byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", "GET"), ("HTTP_ACCEPT", "*/*"), .. host is null ? [] : ((string, string)[])[("HTTP_HOST", host)], ("REQUEST_URI", target)]);
        var head = new CgiHead();
        Assert.Equal(CgiFault.None, head.Read(parameters, ParametersMax));
        Assert.Equal(expected, Encoding.ASCII.GetString(head.Host.In(parameters)));
        Assert.Equal(host is null ? ["Accept"] : ["Accept", "Host"], HeaderNames(head, parameters));
        Assert.Equal(host is null ? "*/*" : expected, Encoding.ASCII.GetString(head.Headers[^1].ValueIn(parameters)));
        Assert.Equal(host is null, head.HasHostInTargetOnly);
    }

    // Apache chooses its virtual host by Host where the scheme is not that of the connection: the host in such a target is nobody's choice.
    [Theory]
    [InlineData("https://a.example/x", "on", CgiFault.None)]
    [InlineData("HTTPS://a.example/x", "on", CgiFault.None)]
    [InlineData("http://a.example/x", "off", CgiFault.None)]
    [InlineData("https://a.example/x", "off", CgiFault.SchemeDisagrees)]
    [InlineData("https://a.example/x", "", CgiFault.SchemeDisagrees)]
    [InlineData("http://a.example/x", "on", CgiFault.SchemeDisagrees)]
    [InlineData("/https://a.example/x", "", CgiFault.None)]
    public void Scheme_of_an_absolute_target_is_that_of_the_connection_RFC9110_7_4(string target, string https, CgiFault expected)
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", target), ("HTTP_HOST", "b.example"), ("HTTPS", https));
        Assert.Equal(expected, new CgiHead().Read(parameters, ParametersMax));
    }

    // To Caddy "x:http://a.example/admin/x" has neither path nor host, and what it sends is an absolute target; of one that is it sends the path alone. H2O 2.2 knows no absolute targets.
    [Theory]
    [InlineData("http://a.example/admin/x", "Caddy/v2.6.2", CgiFault.PathDisagrees)]
    [InlineData("http://a.example/admin/x", "h2o/2.2.5", CgiFault.PathDisagrees)]
    [InlineData("/admin/x", "Caddy/v2.6.2", CgiFault.None)]
    [InlineData("http://a.example/admin/x", "Apache/2.4.66", CgiFault.None)]
    public void Absolute_target_of_a_web_server_that_sends_none_is_refused_RFC9112_3_2_2(string target, string software, CgiFault expected)
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("SERVER_SOFTWARE", software), ("REQUEST_URI", target), ("PATH_INFO", ""), ("SCRIPT_NAME", ""), ("HTTP_HOST", "b.example"));
        Assert.Equal(expected, new CgiHead().Read(parameters, ParametersMax));
    }

    // H2O 2.2 knows no absolute targets: it looks for the rules of the path "/http://a.example/x", and for the site of Host.
    [Theory]
    [InlineData("http://a.example/admin/x", "", "/http://a.example/admin/x", CgiFault.PathDisagrees)]
    [InlineData("HTTP://a.example/admin/x?q", "", "/HTTP://a.example/admin/x", CgiFault.PathDisagrees)]
    [InlineData("https://a.example/x", "on", "/https://a.example/x", CgiFault.PathDisagrees)]
    [InlineData("http://../admin/x", "", "/http:/admin/x", CgiFault.PathDisagrees)]
    [InlineData("https://./admin/x", "on", "/https:/admin/x", CgiFault.PathDisagrees)]
    [InlineData("http://a.example/x", "", "/x", CgiFault.None)]
    [InlineData("http://a.example/x", "", "", CgiFault.None)]
    [InlineData("/http://a.example/x", "", "/http://a.example/x", CgiFault.None)]
    public void Absolute_target_that_the_web_server_takes_for_a_path_is_refused_RFC9112_3_2_2(string target, string https, string pathInfo, CgiFault expected)
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", target), ("PATH_INFO", pathInfo), ("SCRIPT_NAME", ""), ("HTTPS", https));
        Assert.Equal(expected, new CgiHead().Read(parameters, ParametersMax));
    }

    [Theory]
    [InlineData("a.example:443", "a.example:443", CgiFault.None)]
    [InlineData("a.example:443", "A.Example:443", CgiFault.None)]
    [InlineData("a.example:443", "a.example", CgiFault.None)]
    [InlineData("a.example:443", "", CgiFault.None)]
    [InlineData("a.example:443", "b.example:443", CgiFault.HostDisagrees)]
    [InlineData("a.example:443", "a.example:80", CgiFault.HostDisagrees)]
    [InlineData("a.example:443", "a.exampl", CgiFault.HostDisagrees)]
    [InlineData("[::1]:443", "[::1]", CgiFault.None)]
    [InlineData("[::1]:443", "[::2]", CgiFault.HostDisagrees)]
    public void CONNECT_is_for_its_target_and_Host_may_not_name_another_RFC9112_3_2_3(string target, string host, CgiFault expected)
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "CONNECT"), ("REQUEST_URI", target), ("HTTP_HOST", host));
        var head = new CgiHead();
        Assert.Equal(expected, head.Read(parameters, ParametersMax));
        Assert.True(expected != CgiFault.None || Encoding.ASCII.GetString(head.Host.In(parameters)) == target);
        Assert.False(head.HasHostInTargetOnly);
    }

    [Theory]
    [InlineData("/a/../b", true, CgiFault.DotSegments)]
    [InlineData("/x/..%2fb", true, CgiFault.DotSegments)]
    [InlineData("http://a/x/../b", true, CgiFault.DotSegments)]
    [InlineData("/a?x=/../b", true, CgiFault.None)]
    [InlineData("/a/../b", false, CgiFault.None)]
    [InlineData("/public#/../admin", false, CgiFault.TargetInvalid)]
    [InlineData("/a\\b", false, CgiFault.TargetInvalid)]
    [InlineData("/a?b\\c", true, CgiFault.None)]
    public void Path_that_two_servers_may_read_in_two_ways_is_refused_RFC3986_3_3(string target, bool refuses, CgiFault expected) =>
        Assert.Equal(expected, new CgiHead { RefusesDotSegments = refuses }.Read(CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", target)), ParametersMax));

    [Theory]
    [InlineData("/a%20b?x", "/a b", CgiFault.None)]
    [InlineData("/a//b", "/a/b", CgiFault.None)]
    [InlineData("/a", "", CgiFault.None)]
    [InlineData("http://h", "/", CgiFault.None)]
    [InlineData("*", "/", CgiFault.None)]
    [InlineData("/admin//../users", "/users", CgiFault.PathDisagrees)]
    [InlineData("/old", "/new", CgiFault.PathDisagrees)]
    [InlineData("http://h", "/x", CgiFault.PathDisagrees)]
    public void Path_for_which_the_web_server_has_chosen_its_rules_is_that_of_the_target(string target, string told, CgiFault expected)
    {
        string method = target == "*" ? "OPTIONS" : "GET";
        Assert.Equal(expected, new CgiHead { RefusesDotSegments = false }.Read(CgiParameters.Write(("REQUEST_METHOD", method), ("REQUEST_URI", target), ("MILLRACE_PATH", told)), ParametersMax));

        // Every other variable that has a path in it may be that of a rewrite.
        Assert.Equal(CgiFault.None, new CgiHead { RefusesDotSegments = false }.Read(CgiParameters.Write(("REQUEST_METHOD", method), ("REQUEST_URI", target), ("DOCUMENT_URI", told)), ParametersMax));
    }

    [Theory]
    [InlineData(20, CgiFault.None)]
    [InlineData(21, CgiFault.TargetTooLong)]
    public void Length_of_the_target_is_limited_RFC9110_15_5_15(int length, CgiFault expected)
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/" + new string('a', length - 1)));
        Assert.Equal(expected, new CgiHead { TargetLengthMax = 20 }.Read(parameters, ParametersMax));
    }

    [Theory]
    [InlineData("/app", "", "GET", CgiFault.None)]
    [InlineData("", "/info", "GET", CgiFault.None)]
    [InlineData("", "", "GET", CgiFault.TargetMissing)]
    [InlineData("app", "/info", "GET", CgiFault.TargetInvalid)]
    [InlineData("*", "", "OPTIONS", CgiFault.None)]
    [InlineData("*", "", "GET", CgiFault.TargetInvalid)]
    public void Target_may_come_from_script_name_and_path_info_RFC3875_3_3(string scriptName, string pathInfo, string method, CgiFault expected)
    {
        foreach ((string Name, string Value)[] uri in new (string, string)[][] { [], [("REQUEST_URI", "")] })
        {
            byte[] parameters = CgiParameters.Write([("REQUEST_METHOD", method), ("SCRIPT_NAME", scriptName), ("PATH_INFO", pathInfo), .. uri]);
            Assert.Equal(expected, new CgiHead().Read(parameters, ParametersMax));
        }
    }

    [Theory]
    [InlineData("CONTENT_TYPE", "a/b\r\nX: y", CgiFault.HeaderValueInvalid)]
    [InlineData("SERVER_PROTOCOL", "HTTP/1.1\n", CgiFault.HeaderValueInvalid)]
    [InlineData("SERVER_PROTOCOL", "INCLUDED", CgiFault.None)]
    [InlineData("SERVER_SIGNATURE", "<address>Apache</address>\n", CgiFault.None)]
    [InlineData("SERVER_NAME", "&lt;a b&gt;", CgiFault.None)]
    [InlineData("REMOTE_ADDR", "unix:", CgiFault.None)]
    public void Only_values_that_reach_the_message_are_judged(string name, string value, CgiFault expected) =>
        Assert.Equal(expected, new CgiHead().Read(CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), (name, value)), ParametersMax));

    [Fact]
    public void Stream_cut_anywhere_is_never_served_with_half_a_pair_FastCGI_3_4()
    {
        byte[] parameters = CgiParameters.Write(CgiParameters.NginxGet);
        var ends = new HashSet<int> { 0 };
        var head = new CgiHead();
        head.Read(parameters, ParametersMax);
        foreach (PairRange pair in head.Parameters)
        {
            ends.Add(pair.ValueStart + pair.ValueLength);
        }

        foreach (int length in Enumerable.Range(0, parameters.Length))
        {
            Assert.Equal(!ends.Contains(length), head.Read(parameters.AsSpan(0, length), ParametersMax) == CgiFault.BrokenPair);
        }
    }

    [Fact]
    public void Damaged_streams_are_answered_and_never_throw()
    {
        var random = new Random(99);
        byte[] good = CgiParameters.Write(CgiParameters.NginxGet);
        var head = new CgiHead();
        var seen = new HashSet<CgiFault>();
        foreach (int _ in Enumerable.Range(0, 20_000))
        {
            byte[] damaged = [.. good];
            foreach (int __ in Enumerable.Range(0, random.Next(1, 4)))
            {
                damaged[random.Next(damaged.Length)] = (byte)random.Next(256);
            }

            seen.Add(head.Read(damaged, ParametersMax));
            foreach (HeaderSlice header in head.Headers)
            {
                Assert.True(header.ValueStart + header.ValueLength <= damaged.Length && header.NameLength > 0);
            }
        }

        Assert.Superset(new HashSet<CgiFault> { CgiFault.None, CgiFault.BrokenPair, CgiFault.MethodMissing, CgiFault.MethodNotToken, CgiFault.TargetInvalid, CgiFault.HostInvalid }, seen);
    }

    [Fact]
    public void Each_fault_becomes_a_client_error_or_says_that_there_is_no_such_method() =>
        Assert.All(Enum.GetValues<CgiFault>().Where(fault => fault != CgiFault.None), fault => Assert.Contains(fault.StatusCode(), new[] { 400, 414, 431, fault == CgiFault.MethodCase ? 501 : 400 }));

    [Fact]
    public void Slice_that_is_not_present_differs_from_an_empty_one()
    {
        Assert.Equal((-1, 0, false, true), (default(Slice).Start, default(Slice).Length, default(Slice).IsPresent, default(Slice).IsEmpty));
        Assert.Equal((0, 0, true, true), (new Slice(0, 0).Start, new Slice(0, 0).Length, new Slice(0, 0).IsPresent, new Slice(0, 0).IsEmpty));
        Assert.True(default(Slice).In("abc"u8).IsEmpty);
        Assert.True(new Slice(1, 2).In("abc"u8).SequenceEqual("bc"u8));
    }

    private static List<string> HeaderNames(CgiHead head, byte[] parameters)
    {
        var names = new List<string>();
        foreach (HeaderSlice header in head.Headers)
        {
            names.Add(HeaderNameMapper.FromVariable(header.NameIn(parameters)));
        }

        return names;
    }
}
