// A body over FastCGI without CONTENT_LENGTH, as a web server passes on what comes to it in chunks, whose first byte comes behind the head: it goes to the end of STDIN (FastCGI 1.0 §5.3), and
// nothing that a head says or does not say makes it an empty one on its way through a router or MapFastCgi.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Command.Routing;
using Millrace.Connector;
using Millrace.Loops;
using Millrace.Tests.Hosting;
using Millrace.Tests.Simulation;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class LateBodyTests : IAsyncLifetime
{
    private readonly SocketFolder _folder = new();
    private HostedApp _app = null!;

    public async ValueTask InitializeAsync() => _app = await HostedApp.StartAsync(
        static app => app.Run(static async context =>
        {
            using var body = new MemoryStream();
            await context.Request.Body.CopyToAsync(body);
            await context.Response.WriteAsync($"<{body.Length} of {(context.Request.ContentLength is { } length ? length : "unknown")}>");
        }),
        address: "fastcgi://unix:" + _folder.PathOf("app.sock"));

    public async ValueTask DisposeAsync()
    {
        await _app.DisposeAsync();
        _folder.Dispose();
    }

    public static TheoryData<bool, string, string?, int> Bodies
    {
        get
        {
            var all = new TheoryData<bool, string, string?, int>();
            foreach (bool isRouter in (bool[])[true, false])
            {
                foreach (var (method, type) in ((string, string?)[])[("POST", null), ("PUT", "a/b"), ("GET", null), ("GET", "a/b"), ("DELETE", null)])
                {
                    all.Add(isRouter, method, type, 0);
                    all.Add(isRouter, method, type, 40);
                    all.Add(isRouter, method, type, 200_000);
                }
            }

            return all;
        }
    }

    [Theory]
    [MemberData(nameof(Bodies))]
    public async Task A_body_without_a_length_goes_to_the_end_of_STDIN_FastCGI_5_3(bool isRouter, string method, string? type, int length)
    {
        string app = _folder.PathOf("app.sock"), address = "fastcgi://unix:" + _folder.PathOf("front.sock");
        using var router = new Router([new Route("app", app, null, null, "")], "/", static _ => { });
        await using HostedApp front = isRouter
            ? await HostedApp.StartAsync(its => its.Run(router.AnswerAsync), builder => builder.Services.AddSingleton<RelayMaker>(router.Relays), address: address)
            : await HostedApp.StartAsync(its => its.MapFastCgi("/{**path}", "unix:" + app), address: address);
        (string, string)[] more = type is null ? [] : [("CONTENT_TYPE", type)];

        using FastCgiPeer peer = front.Connect();
        peer.Send([.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/length", method, more)))]);
        await Task.Delay(50);
        peer.Send(Wire.Stream(Wire.Stdin, 1, new byte[length]));

        Assert.StartsWith($"<{length} of ", peer.Receive().Text, StringComparison.Ordinal);
    }

    // Somebody before the endpoint has read of it, and has not put it back.
    private Task<HostedApp> StartReadingAsync(int taken) => HostedApp.StartAsync(its =>
    {
        its.Use(async (context, next) =>
        {
            await context.Request.Body.ReadExactlyAsync(new byte[taken]);
            await next(context);
        });
        its.UseRouting();
        its.MapFastCgi("/{**path}", "unix:" + _folder.PathOf("app.sock"));
    });

    [Theory]
    [InlineData(50, 5, "<45 of 45>")]
    [InlineData(50, 50, "<0 of ")]
    public async Task What_is_left_of_a_body_is_what_a_program_is_told_of(int length, int taken, string expected)
    {
        await using HostedApp front = await StartReadingAsync(taken);
        using FastCgiPeer peer = front.Connect();
        FastCgiResponse response = peer.Exchange(new FastCgiRequest("/x", "POST") { Body = new byte[length] });
        Assert.StartsWith(expected, response.Status == 200 ? response.Text : $"{response.Status}", StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_is_left_of_a_body_that_is_coming_yet_is_not_passed_on()
    {
        await using HostedApp front = await StartReadingAsync(taken: 5);
        using FastCgiPeer peer = front.Connect();
        peer.Send([.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/x", "POST", ("CONTENT_LENGTH", "200000")))), .. Wire.Record(Wire.Stdin, 1, new byte[50_000])]);
        Task<FastCgiResponse> receiving = Task.Run(() => peer.Receive());
        _ = await Task.WhenAny(receiving, Task.Delay(100));
        peer.Send([.. Wire.Record(Wire.Stdin, 1, new byte[50_000]), .. Wire.Record(Wire.Stdin, 1, new byte[50_000]), .. Wire.Record(Wire.Stdin, 1, new byte[50_000]), .. Wire.Record(Wire.Stdin, 1, [])]);
        Assert.Equal(500, (await receiving).Status);
    }
}
