// Behind nginx with Debian's own fastcgi_params: more parameters than needed, some of which contradict the request. Only
// what these parameters change; everything else is the end-to-end list's.
using System.Text.Json;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public sealed class NginxDebianParametersRig()
    : EndToEndRig(
        new NginxProgram("fastcgi-debian.conf"),
        new Combination(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.ClosedAfterEachRequest),
        alwaysMillrace: true);

public sealed class NginxDebianParametersTests(NginxDebianParametersRig rig) : IClassFixture<NginxDebianParametersRig>
{
    [Fact]
    public async Task Path_is_the_whole_path_though_SCRIPT_NAME_holds_it_too()
    {
        EnvironmentReport seen = await GetAsync(tls: false, "/env/a%2Fb//c%20d?x=%2F");
        Assert.Equal("/env/a%2Fb//c%20d?x=%2F", seen.RawTarget);
        Assert.Equal("", seen.PathBase);
        Assert.Equal("/env/a%2Fb//c d", seen.Path);
        Assert.Equal("?x=%2F", seen.QueryString);
    }

    [Fact]
    public async Task Host_is_the_front_ends_which_loses_the_port()
    {
        EnvironmentReport seen = await GetAsync(tls: false, "/env/x", "Host: www.example.org:8080");
        Assert.Equal("www.example.org", seen.Host);
        Assert.Equal("http", seen.Scheme);
    }

    [Fact]
    public async Task Parameters_of_the_front_end_are_no_request_headers()
    {
        EnvironmentReport seen = await GetAsync(tls: false, "/env/x");
        Assert.Equal(["Host"], seen.Headers.Keys);
    }

    [Fact]
    public async Task Parameter_HTTPS_makes_the_scheme_https_RFC3875_4_1()
    {
        EnvironmentReport seen = await GetAsync(tls: true, "/env/x");
        Assert.Equal("https", seen.Scheme);
    }

    [Fact]
    public async Task Clients_that_claim_HTTPS_in_a_header_stay_with_http()
    {
        EnvironmentReport seen = await GetAsync(tls: false, "/env/x", "Https: on", "X-Forwarded-Proto: https");
        Assert.Equal("http", seen.Scheme);
    }

    [Fact]
    public async Task Target_is_the_clients_where_the_front_end_rewrote_it()
    {
        EnvironmentReport seen = await GetAsync(tls: true, "/env/old/x?y=1");
        Assert.Equal("/env/old/x?y=1", seen.RawTarget);
        Assert.Equal("/env/old/x", seen.Path);
        Assert.Equal("?y=1", seen.QueryString);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1_000_000)]
    public async Task Body_arrives_whole(int size)
    {
        using WireClient client = await WireClient.ConnectAsync(rig.FrontEnd.Buffered);
        WireResponse response = await client.SendAsync("POST", "/hash", DeterministicBytes.Create(size));
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
    }

    private async Task<EnvironmentReport> GetAsync(bool tls, string target, params string[] headers)
    {
        using WireClient client = await WireClient.ConnectAsync(tls ? rig.FrontEnd.Streaming : rig.FrontEnd.Buffered);
        WireResponse response = await client.GetAsync(target, headers);
        Assert.Equal(200, response.Status);
        return JsonSerializer.Deserialize<EnvironmentReport>(response.Body, JsonSerializerOptions.Web)!;
    }
}
