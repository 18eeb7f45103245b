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

    [Fact]
    public void Upgrade_stays_where_the_web_server_tunnels_RFC9110_7_8()
    {
        byte[] parameters = CgiParameters.Write(("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("HTTP_UPGRADE", "websocket"), ("HTTP_CONNECTION", "Upgrade"));
        var head = new CgiHead { KeepUpgrade = true };
        Assert.Equal(CgiFault.None, head.Read(parameters, ParametersMax));
        Assert.Equal(["Upgrade"], HeaderNames(head, parameters));
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
    public void Each_fault_becomes_a_client_error() =>
        Assert.All(Enum.GetValues<CgiFault>().Where(fault => fault != CgiFault.None), fault => Assert.Contains(fault.StatusCode(), new[] { 400, 414, 431 }));

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
