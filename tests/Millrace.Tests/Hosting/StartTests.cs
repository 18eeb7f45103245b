// How an application comes up on Millrace and goes down again: addresses, options, drain.

using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;
using Millrace.AspNetCore;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class StartTests
{
    [Fact]
    public async Task The_addresses_feature_reports_the_port_that_was_given()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", () => "here"), address: "fastcgi://127.0.0.1:0");
        string address = Assert.Single(app.App.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses);
        Assert.StartsWith("fastcgi://127.0.0.1:", address, StringComparison.Ordinal);
        Assert.DoesNotContain(":0", address, StringComparison.Ordinal);
        Assert.Equal("here", app.Get("/").Text);
    }

    // What applications read of it to announce themselves, to look at their own health or to open a browser.
    [Theory]
    [InlineData("http://*:0")]
    [InlineData("http://+:0")]
    [InlineData("http://[::]:0")]
    [InlineData("fastcgi://*:0?allow=127.0.0.1")]
    public async Task Every_address_of_the_machine_is_reported_as_on_Kestrel_so_that_Uri_reads_it(string asked)
    {
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, address: asked);
        string address = Assert.Single(app.App.Urls);
        var uri = new Uri(address);
        Assert.NotEqual(0, uri.Port);
        Assert.Equal($"{uri.Scheme}://{(Socket.OSSupportsIPv6 ? "[::]" : "0.0.0.0")}:{uri.Port}", address);
    }

    // Applications that take the next port then catch IOException, or ask for what is in it.
    [Fact]
    public async Task An_address_that_is_in_use_is_said_as_on_Kestrel()
    {
        using var folder = new SocketFolder();
        string socket = folder.NewAddress();
        await using HostedApp first = await HostedApp.StartAsync(app => app.Urls.Add(socket), address: "http://127.0.0.1:0");
        foreach (string taken in first.App.Urls.ToArray())
        {
            IOException error = await Assert.ThrowsAnyAsync<IOException>(() => HostedApp.StartAsync(static _ => { }, address: taken));
            var inner = Assert.IsType<AddressInUseException>(Assert.IsType<MillraceStartException>(error).InnerException);
            Assert.Equal(SocketError.AddressAlreadyInUse, Assert.IsType<SocketException>(inner.InnerException).SocketErrorCode);
        }
    }

    [Fact]
    public async Task A_server_listens_on_further_addresses_while_it_runs_on_all_of_them_or_on_none_and_on_none_when_it_stops()
    {
        using var folder = new SocketFolder();
        string later = folder.NewAddress("http");
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", () => "here"), address: "http://127.0.0.1:0");
        var server = (HostedServer)app.App.Services.GetRequiredService<IServer>();
        string taken = app.App.Urls.Single();
        using var client = new HttpClient();
        using var sockets = new HttpClient(new SocketsHttpHandler
        {
            ConnectCallback = async (_, ct) =>
            {
                var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                await socket.ConnectAsync(new UnixDomainSocketEndPoint(later["http://unix:".Length..]), ct);
                return new NetworkStream(socket, ownsSocket: true);
            },
        });

        await Assert.ThrowsAsync<MillraceStartException>(() => server.ListenAsync([later, taken]));
        await Assert.ThrowsAsync<HttpRequestException>(() => sockets.GetStringAsync("http://localhost/"));

        await server.ListenAsync([later]);
        Assert.Equal("here", await sockets.GetStringAsync("http://localhost/"));
        Assert.Equal("here", await client.GetStringAsync(taken));

        await app.App.StopAsync();
        await Assert.ThrowsAsync<HttpRequestException>(() => sockets.GetStringAsync("http://localhost/"));
        await Assert.ThrowsAsync<MillraceStartException>(() => server.ListenAsync([later]));
        Assert.False(File.Exists(later["http://unix:".Length..]));
    }

    [Fact]
    public async Task Several_addresses_are_served()
    {
        using var folder = new SocketFolder();
        string other = folder.NewAddress();
        await using HostedApp app = await HostedApp.StartAsync(app =>
        {
            app.MapGet("/", () => "here");
            app.Urls.Add(other);
        });
        Assert.Equal(2, app.App.Urls.Count);
        foreach (string address in app.App.Urls)
        {
            using FastCgiPeer peer = FastCgiPeer.Connect(address);
            Assert.Equal("here", peer.Exchange(new FastCgiRequest("/")).Text);
        }
    }

    [Fact]
    public async Task Options_come_from_the_section_Millrace_and_then_from_code()
    {
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, static builder => builder.Configuration.AddInMemoryCollection(new Dictionary<string, string?>
        {
            ["Millrace:MaxParameters"] = "77",
            ["Millrace:IdleTimeout"] = "00:00:10",
            ["Millrace:Dispatch"] = "Workers",
            ["Millrace:DotSegments"] = "Remove",
            ["Millrace:AmbiguousHeaders"] = "Keep",
            ["Millrace:AllowSynchronousIO"] = "true",
            ["Millrace:MaxRequestBodySize"] = "5000000000",
            ["Millrace:MaxConnections"] = "11",
        }), static options => options.MaxConnections = 12);
        MillraceOptions options = app.App.Services.GetRequiredService<IOptions<MillraceOptions>>().Value;
        Assert.Equal((77, TimeSpan.FromSeconds(10), DispatchMode.Workers), (options.MaxParameters, options.IdleTimeout, options.Dispatch));
        Assert.Equal((DotSegments.Remove, AmbiguousHeaders.Keep), (options.DotSegments, options.AmbiguousHeaders));
        Assert.Equal((true, 5_000_000_000, 12), (options.AllowSynchronousIO, options.MaxRequestBodySize, options.MaxConnections));
    }

    [Fact]
    public async Task An_option_outside_its_range_stops_the_start_and_is_named()
    {
        OptionsValidationException error = await Assert.ThrowsAsync<OptionsValidationException>(
            static () => HostedApp.StartAsync(static _ => { }, options: static options => options.MaxParameters = 5));
        Assert.Contains("MaxParameters is 5; it must be from 10 to 100000", error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(1, true)]
    [InlineData(10_000, true)]
    [InlineData(10_001, false)]
    public void The_number_of_headers_has_a_range(int value, bool isTaken)
    {
        var options = new MillraceOptions { MaxHeaders = value };
        Exception? error = Record.Exception(() => options.Validate());
        Assert.Equal(isTaken ? null : $"Millrace option MaxHeaders is {value}; it must be from 1 to 10000. (Parameter 'MaxHeaders')", error?.Message);
    }

    [Fact]
    public async Task An_address_that_is_not_understood_stops_the_start() =>
        await Assert.ThrowsAsync<FormatException>(static () => HostedApp.StartAsync(static _ => { }, address: "gopher://localhost"));

    [Fact]
    public async Task Requests_in_progress_end_whole_when_the_application_stops_and_nobody_listens_afterwards()
    {
        using var entered = new SemaphoreSlim(0);
        using var released = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/slow", async () =>
        {
            entered.Release();
            Assert.True(await released.WaitAsync(10_000));
            return "whole";
        }));
        string address = app.Address;
        using FastCgiPeer peer = app.Connect();
        using FastCgiPeer idle = app.Connect();
        peer.Send(new FastCgiRequest("/slow").ToBytes());
        Assert.True(await entered.WaitAsync(10_000));
        Task stopping = app.App.StopAsync();
        Assert.True(idle.IsClosedByServer());
        Assert.False(stopping.IsCompleted);
        released.Release();
        FastCgiResponse response = peer.Receive();
        Assert.True(response.IsWhole && response.Text == "whole", response.ToString());
        Assert.True(peer.IsClosedByServer());
        await stopping.WaitAsync(TimeSpan.FromSeconds(10));
        Assert.ThrowsAny<SocketException>(() => FastCgiPeer.Connect(address));
    }

    [Fact]
    public async Task What_does_not_end_within_the_drain_time_is_cut()
    {
        bool aborted = false;
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/stuck", async (HttpContext context) =>
        {
            await context.Response.WriteAsync("part");
            await context.Response.Body.FlushAsync();
            try
            {
                await Task.Delay(20_000, context.RequestAborted);
            }
            finally
            {
                Volatile.Write(ref aborted, context.RequestAborted.IsCancellationRequested);
            }
        }), options: static options => options.DrainTimeout = TimeSpan.FromMilliseconds(200));
        using FastCgiPeer peer = app.Connect();
        peer.Send(new FastCgiRequest("/stuck").ToBytes());
        Assert.Contains("part", peer.ReceiveSome(4), StringComparison.Ordinal);
        await app.App.StopAsync().WaitAsync(TimeSpan.FromSeconds(10));
        FastCgiResponse rest = peer.Receive();
        Assert.Equal((null, true), (rest.End, rest.IsBroken));
        Assert.True(ProcessState.Becomes(() => Volatile.Read(ref aborted)));
    }
}
