// What the daemon alone may ask its processes, and what it believes of what they answer.

using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Millrace.Command.Pools;
using Millrace.Command.Routing;
using Millrace.Command.Serving;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;
using HostedApp = Millrace.Tests.Hosting.HostedApp;

namespace Millrace.Tests.Command;

public sealed class PoolAuthorityTests : IDisposable
{
    private const string Key = "0123456789ABCDEF0123456789ABCDEF";

    private readonly SocketFolder _folder = new();
    private readonly string _private;

    public PoolAuthorityTests() => _private = _folder.PathOf("private.http");

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("private.http", Key, "control")]
    [InlineData("private.http", "0123456789ABCDEF0123456789ABCDEE", "health")]
    [InlineData("private.http", "", "health")]
    [InlineData("public.http", Key, "visitor")]
    [InlineData(null, Key, "visitor")]
    public async Task The_daemon_is_who_comes_by_its_private_socket_and_has_the_key(string? socket, string key, string asked)
    {
        var authority = new PoolAuthority(new DaemonsSocket(_private), Key);
        await using HostedApp app = await StartAsync(socket, context => context.Response.WriteAsync(authority.MayControl(context) ? "control" : authority.AsksForHealth(context) ? "health" : "visitor"));

        Assert.EndsWith("\n" + asked, await AskAsync(app.Address, PoolSettingsJson.HealthHost, key), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Nobody_is_where_there_is_no_private_socket_and_a_front_server_over_FastCGI_never_is()
    {
        await using HostedApp app = await StartAsync("private.http", context => context.Response.WriteAsync(new DaemonsSocket(null).Has(context) ? "daemon" : "visitor"));
        Assert.EndsWith("\nvisitor", await AskAsync(app.Address, "x", Key), StringComparison.Ordinal);

        await using HostedApp front = await HostedApp.StartAsync(its => its.Run(context => context.Response.WriteAsync(new DaemonsSocket(_folder.PathOf("f.sock")).Has(context) ? "daemon" : "visitor")), address: "fastcgi://unix:" + _folder.PathOf("f.sock"));
        Assert.Equal("visitor", front.Get("/").Text);
    }

    [Theory]
    [InlineData("private.http", "HTTP/1.1 200 ")]
    [InlineData("public.http", "HTTP/1.1 404 ")]
    [InlineData(null, "HTTP/1.1 404 ")]
    public async Task A_router_says_to_the_daemon_alone_that_it_is_well(string? socket, string status)
    {
        using var router = new Router([new Route("app", _folder.PathOf("app.sock"), null, "only.example", "")], "/", static _ => { }, daemon: new DaemonsSocket(_private));
        await using HostedApp app = await StartAsync(socket, router.AnswerAsync);

        Assert.StartsWith(status, await AskAsync(app.Address, Router.HealthHost, ""), StringComparison.Ordinal);
    }

    // A script may have broken into its pool's process, which then says what it likes; the other pools are shown all the same.
    [Theory]
    [InlineData("null", 0)]
    [InlineData("{}", 0)]
    [InlineData("""{ "process": 1, "application": "x", "pools": [null] }""", 0)]
    [InlineData("""{ "process": 1, "application": "x", "pools": [{ "name": "php", "min": 1, "max": 1, "generation": 1, "isHeld": false, "isClosed": false, "waiting": 0, "running": 0, "calls": 0, "failures": 0, "refusedFull": 0, "refusedLate": 0, "leftQueue": 0, "overTime": 0, "startFailure": null, "workers": null, "stuck": [], "hits": [], "ends": {} }] }""", 0)]
    [InlineData("""{ "process": 1, "application": "x", "pools": [{ "name": "php", "min": 1, "max": 1, "generation": 1, "isHeld": false, "isClosed": false, "waiting": 0, "running": 0, "calls": 0, "failures": 0, "refusedFull": 0, "refusedLate": 0, "leftQueue": 0, "overTime": 0, "startFailure": null, "workers": [], "stuck": [], "hits": [], "ends": {} }] }""", 1)]
    [InlineData("""{ "process": 1, "application": "x", "pools": [{ "name": "other", "min": 1, "max": 1, "generation": 1, "isHeld": false, "isClosed": false, "waiting": 0, "running": 0, "calls": 0, "failures": 0, "refusedFull": 0, "refusedLate": 0, "leftQueue": 0, "overTime": 0, "startFailure": null, "workers": [], "stuck": [], "hits": [], "ends": {} }] }""", 0)]
    public void What_a_process_says_of_its_pool_counts_where_it_is_whole_and_of_that_pool(string json, int count)
    {
        Assert.Equal(count, ControlServer.PoolsOf(Encoding.UTF8.GetBytes(json), "php").Count);
    }

    private Task<HostedApp> StartAsync(string? socket, RequestDelegate answer) =>
        HostedApp.StartAsync(app => app.Run(answer), address: socket is null ? "http://127.0.0.1:0" : "http://unix:" + _folder.PathOf(socket));

    private static async Task<string> AskAsync(string address, string host, string key)
    {
        bool isUnix = address.Contains("unix:", StringComparison.Ordinal);
        using var socket = new Socket(isUnix ? AddressFamily.Unix : AddressFamily.InterNetwork, SocketType.Stream, isUnix ? ProtocolType.Unspecified : ProtocolType.Tcp);
        await (isUnix ? socket.ConnectAsync(new UnixDomainSocketEndPoint(address.Split("unix:")[1].Split('?')[0])) : socket.ConnectAsync("127.0.0.1", new Uri(address).Port));
        string field = key.Length > 0 ? $"{PoolSettingsJson.KeyField}: {key}\r\n" : "";
        await socket.SendAsync(Encoding.ASCII.GetBytes($"GET /pools HTTP/1.0\r\nHost: {host}\r\n{field}\r\n"));
        using var reader = new StreamReader(new NetworkStream(socket));
        return await reader.ReadToEndAsync();
    }
}
