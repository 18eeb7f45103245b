// The end-to-end list: methods, targets, headers, cookies, statuses.
using System.Text.Json;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    [Fact]
    public virtual async Task Get_is_answered()
    {
        WireResponse response = await GetAsync("/hello");
        Assert.Equal(200, response.Status);
        Assert.Equal("Hello, World!", response.Text);
        Assert.Equal("text/plain; charset=utf-8", response.Header("Content-Type"));
    }

    [Fact]
    public virtual async Task Head_has_the_head_of_get_and_no_body_RFC9110_9_3_2()
    {
        using WireClient client = await ConnectAsync();
        WireResponse head = await client.SendAsync("HEAD", "/big?bytes=70000&length=known&write=whole");
        Assert.Equal(200, head.Status);
        Assert.Equal(70_000, head.Head.ContentLength);
        Assert.Empty(head.Body);

        // Text written by a handler that does not look at the method must not follow the head either.
        WireResponse hello = await client.SendAsync("HEAD", "/hello");
        Assert.Equal(200, hello.Status);

        WireResponse next = await client.GetAsync("/hello");
        Assert.Equal("Hello, World!", next.Text);
    }

    [Theory]
    [InlineData("GET")]
    [InlineData("POST")]
    [InlineData("PUT")]
    [InlineData("DELETE")]
    [InlineData("PATCH")]
    [InlineData("OPTIONS")]
    [InlineData("PROPFIND")]
    public virtual async Task Method_arrives_as_sent(string method)
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.SendAsync(method, "/env/x", method is "GET" or "OPTIONS" ? null : []);
        Assert.Equal(method, Report(response).Method);
    }

    [Theory]
    [InlineData("/env/plain", "/env/plain", "")]
    [InlineData("/env/a%20b", "/env/a b", "")]
    [InlineData("/env/a+b", "/env/a+b", "")]
    [InlineData("/env/a%2Fb", "/env/a%2Fb", "")]
    [InlineData("/env/a%2fb/c", "/env/a%2fb/c", "")]
    [InlineData("/env/a%252Fb", "/env/a%2Fb", "")]
    [InlineData("/env/100%25", "/env/100%", "")]
    [InlineData("/env/%7Euser/%41", "/env/~user/A", "")]
    [InlineData("/env/gr%C3%BC%C3%9Fe/%E6%97%A5%E6%9C%AC/%F0%9F%98%80", "/env/grüße/日本/😀", "")]
    [InlineData("/env/a//b", "/env/a//b", "")]
    [InlineData("/env/.a/b../...", "/env/.a/b../...", "")]
    [InlineData("/env/a;v=1,2@x:y!$&'()*", "/env/a;v=1,2@x:y!$&'()*", "")]
    [InlineData("/env/q?", "/env/q", "?")]
    [InlineData("/env/q?a=1&b=2", "/env/q", "?a=1&b=2")]
    [InlineData("/env/q?a=%2F%20+%C3%BC&a=2&empty=&bare", "/env/q", "?a=%2F%20+%C3%BC&a=2&empty=&bare")]
    [InlineData("/env/q?a=/b/../c?d", "/env/q", "?a=/b/../c?d")]
    public virtual async Task Target_is_kept_raw_and_decoded_once_RFC3986_2_4(string target, string path, string query)
    {
        EnvironmentReport seen = Report(await GetAsync(target));
        Assert.Equal(target, seen.RawTarget);
        Assert.Equal(path, seen.Path);
        Assert.Equal("", seen.PathBase);
        Assert.Equal(query, seen.QueryString);
    }

    [Fact]
    public virtual async Task Query_is_decoded_by_name_and_value()
    {
        EnvironmentReport seen = Report(await GetAsync("/env/q?a=%2F%20+%C3%BC&a=2&empty=&%E2%82%AC=x"));
        Assert.Equal(["/  ü", "2"], seen.Query["a"]);
        Assert.Equal([""], seen.Query["empty"]);
        Assert.Equal(["x"], seen.Query["€"]);
    }

    [Fact]
    public virtual async Task Long_query_arrives_whole()
    {
        string value = new('q', 6_000);
        EnvironmentReport seen = Report(await GetAsync($"/env/q?long={value}&end=1"));
        Assert.Equal($"?long={value}&end=1", seen.QueryString);
    }

    [Fact]
    public virtual async Task Host_scheme_protocol_and_addresses_are_those_of_the_client()
    {
        EnvironmentReport seen = await AssertHostSchemeAndClientAsync();
        if (IsFastCgi)
        {
            Assert.Equal("127.0.0.1", seen.LocalAddress);
            Assert.Equal(rig.FrontEnd.Buffered.Port, seen.LocalPort);
        }
    }

    [Fact]
    public virtual async Task Request_headers_arrive_with_their_values()
    {
        EnvironmentReport seen = await AssertHeadersArriveAsync();
        Assert.Null(seen.Header("Content-Length"));
        Assert.Null(seen.Header("Content-Type"));
    }

    [Fact]
    public virtual async Task Credentials_of_the_client_arrive_RFC9110_11_6_2()
    {
        EnvironmentReport seen = Report(await GetAsync("/env/x", "Authorization: Basic dXNlcjpwYXNzd29yZA=="));
        Assert.Equal("Basic dXNlcjpwYXNzd29yZA==", seen.Header("Authorization"));
    }

    [Fact]
    public virtual async Task Header_that_names_a_proxy_never_arrives_over_FastCgi_CVE_2016_5385()
    {
        EnvironmentReport seen = Report(await GetAsync("/env/x", "Proxy: http://evil.example/", "X-Other: 1"));
        Assert.Equal(IsFastCgi ? null : "http://evil.example/", seen.Header("Proxy"));
        Assert.Equal("1", seen.Header("X-Other"));
    }

    [Fact]
    public virtual async Task Repeated_headers_keep_all_values_both_ways_RFC9110_5_3()
    {
        WireResponse response = await GetAsync("/duplicates", "X-Many: one", "X-Many: two", "X-Many: three");
        Assert.Equal("one, two, three", response.Text);
        Assert.Equal(["one", "two, with a comma"], response.Head.HeaderValues("X-Many"));
    }

    [Fact]
    public virtual async Task Cookies_arrive_and_each_set_cookie_has_its_own_line_RFC6265_3()
    {
        WireResponse response = await GetAsync("/cookies", "Cookie: a=1; b=x%20y");
        Assert.Equal("1|x y", response.Text);
        Assert.Equal(["first=1; path=/; httponly", "second=two%20words; path=/"], response.Head.HeaderValues("Set-Cookie"));
    }

    [Theory]
    [InlineData(200)]
    [InlineData(201)]
    [InlineData(204)]
    [InlineData(205)]
    [InlineData(301)]
    [InlineData(303)]
    [InlineData(304)]
    [InlineData(307)]
    [InlineData(308)]
    [InlineData(400)]
    [InlineData(404)]
    [InlineData(418)]
    [InlineData(429)]
    [InlineData(500)]
    [InlineData(503)]
    [InlineData(599)]
    public virtual async Task Status_is_passed_on_and_the_connection_goes_on(int status)
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.GetAsync($"/status/{status}");
        Assert.Equal(status, response.Status);
        Assert.Equal(status is 204 or 205 or 304 ? "" : $"status {status}", response.Text);
        Assert.True(status != 205 || response.Header("Content-Length") == "0", "A reset of the content does not say that it is empty.");     // RFC 9110 15.3.6
        Assert.Equal(status is 201 or 301 or 303 or 307 or 308 ? "/hello" : null, response.Header("Location"));

        WireResponse next = await client.GetAsync("/hello");
        Assert.Equal("Hello, World!", next.Text);
    }

    [Fact]
    public virtual async Task Unknown_path_is_404_and_unknown_method_405()
    {
        using WireClient client = await ConnectAsync();
        Assert.Equal(404, (await client.GetAsync("/nowhere")).Status);
        WireResponse wrongMethod = await client.SendAsync("DELETE", "/hello");
        Assert.Equal(405, wrongMethod.Status);
        Assert.Equal("GET, HEAD", wrongMethod.Header("Allow"));
    }

    [Theory]
    [InlineData(1_000)]
    [InlineData(3_000)]
    public virtual async Task Large_response_header_is_passed_on(int length)
    {
        WireResponse response = await GetAsync($"/large-header?bytes={length}");
        Assert.Equal(200, response.Status);
        Assert.Equal(new string('v', length), response.Header("X-Large"));
        Assert.Equal("large", response.Text);
    }

    /// <summary>What holds of the headers behind every front end.</summary>
    protected async Task<EnvironmentReport> AssertHeadersArriveAsync()
    {
        string large = new('c', 6_000);
        EnvironmentReport seen = Report(await GetAsync(
            "/env/x", "Accept: text/html, */*;q=0.1", "X-Empty:", "x-lower-case: 1", $"X-Large: {large}", "User-Agent: probe/1.0 (a; b)"));
        Assert.Equal("text/html, */*;q=0.1", seen.Header("Accept"));
        Assert.Equal("1", seen.Header("X-Lower-Case"));
        Assert.Equal(large, seen.Header("X-Large"));
        Assert.Equal("probe/1.0 (a; b)", seen.Header("User-Agent"));
        Assert.Equal("", seen.Header("X-Empty") ?? "");
        return seen;
    }

    /// <summary>What holds of host, scheme and client behind every front end.</summary>
    protected async Task<EnvironmentReport> AssertHostSchemeAndClientAsync()
    {
        using WireClient client = await ConnectAsync();
        EnvironmentReport seen = Report(await client.GetAsync("/env/x", "Host: www.example.org:8080"));
        Assert.Equal("www.example.org:8080", seen.Host);
        Assert.Equal("http", seen.Scheme);
        Assert.Equal("HTTP/1.1", seen.Protocol);
        if (IsFastCgi)
        {
            // Over HTTP the peer is the front end: X-Forwarded-For and its middleware are needed.
            Assert.Equal("127.0.0.1", seen.RemoteAddress);
            Assert.Equal(client.LocalEndPoint.Port, seen.RemotePort);
        }

        return seen;
    }

    protected static EnvironmentReport Report(WireResponse response)
    {
        Assert.Equal(200, response.Status);
        return JsonSerializer.Deserialize<EnvironmentReport>(response.Body, JsonSerializerOptions.Web)!;
    }
}
