// Names: which variables are recognised, which headers pass, how headers are spelled.
using System.Text;
using Millrace.Protocols.Cgi;

namespace Millrace.Tests.Protocols.Cgi;

public sealed class NameTests
{
    private static readonly Dictionary<string, CgiVariable> Variables = new()
    {
        ["REQUEST_METHOD"] = CgiVariable.RequestMethod,
        ["REQUEST_URI"] = CgiVariable.RequestUri,
        ["CONTENT_LENGTH"] = CgiVariable.ContentLength,
        ["SCRIPT_NAME"] = CgiVariable.ScriptName,
        ["PATH_INFO"] = CgiVariable.PathInfo,
        ["QUERY_STRING"] = CgiVariable.QueryString,
        ["SERVER_PROTOCOL"] = CgiVariable.ServerProtocol,
        ["SERVER_NAME"] = CgiVariable.ServerName,
        ["SERVER_PORT"] = CgiVariable.ServerPort,
        ["SERVER_ADDR"] = CgiVariable.ServerAddress,
        ["REMOTE_ADDR"] = CgiVariable.RemoteAddress,
        ["REMOTE_PORT"] = CgiVariable.RemotePort,
        ["CONTENT_TYPE"] = CgiVariable.ContentType,
        ["HTTPS"] = CgiVariable.Https,
        ["REQUEST_SCHEME"] = CgiVariable.RequestScheme,
    };

    [Fact]
    public void Each_variable_is_recognised_and_nothing_one_byte_away_from_it_RFC3875_4_1()
    {
        foreach ((string name, CgiVariable variable) in Variables)
        {
            byte[] bytes = Encoding.ASCII.GetBytes(name);
            Assert.Equal(variable, CgiVariableNames.Recognise(bytes));
            Assert.Equal(CgiVariable.Other, CgiVariableNames.Recognise(bytes.AsSpan(1)));
            Assert.Equal(CgiVariable.Other, CgiVariableNames.Recognise([.. bytes, (byte)'X']));
            foreach (int i in Enumerable.Range(0, bytes.Length))
            {
                byte[] near = [.. bytes];
                near[i] ^= 0x20;
                Assert.Equal(CgiVariable.Other, CgiVariableNames.Recognise(near));
            }
        }

        Assert.Equal(CgiVariable.Other, CgiVariableNames.Recognise([]));
    }

    [Theory]
    [InlineData("DOCUMENT_URI")]
    [InlineData("REMOTE_USER")]
    [InlineData("REMOTE_HOST")]
    [InlineData("SCRIPT_FILENAME")]
    [InlineData("PHP_VALUE")]
    [InlineData("AUTH_TYPE")]
    [InlineData("SERVER_SIGNATURE")]
    public void Other_variables_say_nothing_about_the_request(string name) => Assert.Equal(CgiVariable.Other, CgiVariableNames.Recognise(Encoding.ASCII.GetBytes(name)));

    [Theory]
    [InlineData("PROXY")]
    [InlineData("CONNECTION")]
    [InlineData("KEEP_ALIVE")]
    [InlineData("PROXY_CONNECTION")]
    [InlineData("TE")]
    [InlineData("TRAILER")]
    [InlineData("TRANSFER_ENCODING")]
    [InlineData("UPGRADE")]
    [InlineData("CONTENT_TYPE")]
    [InlineData("CONTENT_LENGTH")]
    public void Headers_that_end_at_the_web_server_are_dropped_in_any_spelling_RFC9110_7_6_1(string name)
    {
        foreach (string spelling in new[] { name, name.Replace('_', '-'), string.Concat(name[0].ToString(), name[1..].Replace("E", "e", StringComparison.Ordinal)) })
        {
            Assert.Equal(HeaderFate.Drop, HeaderFilter.Judge(Encoding.ASCII.GetBytes(spelling)));
        }

        Assert.Equal(HeaderFate.Keep, HeaderFilter.Judge(Encoding.ASCII.GetBytes("X" + name[1..])));
    }

    [Theory]
    [InlineData("CONTENT_ENCODING", HeaderFate.Keep)]
    [InlineData("HOST", HeaderFate.Host)]
    [InlineData("UPGRADE_INSECURE_REQUESTS", HeaderFate.Keep)]
    [InlineData("X", HeaderFate.Keep)]
    [InlineData("", HeaderFate.Drop)]
    [InlineData("A B", HeaderFate.Drop)]
    [InlineData("A:B", HeaderFate.Drop)]
    [InlineData("A\0", HeaderFate.Drop)]
    public void Other_headers_pass_if_they_are_tokens_RFC9110_5_6_2(string name, object fate) => Assert.Equal(fate, HeaderFilter.Judge(Encoding.ASCII.GetBytes(name)));

    [Theory]
    [InlineData("USER_AGENT", "User-Agent")]
    [InlineData("ETAG", "ETag")]
    [InlineData("DNT", "DNT")]
    [InlineData("TE", "TE")]
    [InlineData("WWW_AUTHENTICATE", "WWW-Authenticate")]
    [InlineData("X_UA_COMPATIBLE", "X-UA-Compatible")]
    [InlineData("SEC_WEBSOCKET_KEY", "Sec-WebSocket-Key")]
    [InlineData("SEC_CH_UA_PLATFORM", "Sec-CH-UA-Platform")]
    [InlineData("CONTENT_MD5", "Content-MD5")]
    [InlineData("X_REQUEST_ID", "X-Request-ID")]
    [InlineData("X_MY_OWN_HEADER", "X-My-Own-Header")]
    [InlineData("A__B", "A--B")]
    [InlineData("_", "-")]
    [InlineData("A_", "A-")]
    [InlineData("a_bC", "A-Bc")]
    [InlineData("X-Y_Z", "X-Y-Z")]
    [InlineData("X_1ST", "X-1st")]
    [InlineData("", "")]
    public void Header_names_get_their_customary_spelling_RFC3875_4_1_18(string variable, string expected) =>
        Assert.Equal(expected, HeaderNameMapper.FromVariable(Encoding.ASCII.GetBytes(variable)));

    [Fact]
    public void Known_header_names_are_one_string_each()
    {
        Assert.Same(HeaderNameMapper.FromVariable("ACCEPT_LANGUAGE"u8), HeaderNameMapper.FromVariable("ACCEPT_LANGUAGE"u8));
        Assert.Same(HeaderNameMapper.FromVariable("X_FORWARDED_FOR"u8), HeaderNameMapper.FromVariable("X_FORWARDED_FOR"u8));
    }

    [Fact]
    public void Any_name_differs_from_its_header_in_case_and_hyphens_only()
    {
        var random = new Random(7);
        foreach (int _ in Enumerable.Range(0, 20_000))
        {
            string variable = string.Concat(Enumerable.Range(0, random.Next(1, 12)).Select(_ => "ABCDEGHTUX_5"[random.Next(12)]));
            string header = HeaderNameMapper.FromVariable(Encoding.ASCII.GetBytes(variable));
            Assert.Equal(variable, header.ToUpperInvariant().Replace('-', '_'));
        }
    }
}
