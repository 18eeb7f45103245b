// Hosting's own log messages and metrics appear as they do over any other server.

using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

[Collection(AloneCollection.Name)]
public sealed class DiagnosticsTests
{
    [Fact]
    public async Task Hosting_logs_the_beginning_and_the_end_of_a_request_and_where_it_listens()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/page", static () => "text"), builder => builder.Logging.AddProvider(log));
        Assert.Equal(200, app.Get("/page?x=1").Status);
        Assert.True(ProcessState.Becomes(() => log.Lines.Any(static line => line.Contains("Request finished HTTP/1.1 GET http://example.com/page?x=1 - 200", StringComparison.Ordinal))), string.Join('\n', log.Lines));
        Assert.Contains(log.Lines, static line => line.Contains("Request starting HTTP/1.1 GET http://example.com/page?x=1", StringComparison.Ordinal));
        Assert.Contains(log.Lines, line => line.Contains($"Now listening on: {app.Address}", StringComparison.Ordinal));
    }

    // The name that hosting has for it stays in its logs and metrics; the client, which has only finished sending, is told nothing.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_request_that_its_client_gives_up_is_499_to_hosting_and_unanswered(bool handlesExceptions)
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(
            app =>
            {
                if (handlesExceptions)
                {
                    app.UseExceptionHandler("/error");
                }

                app.MapGet("/wait", static async context => await Task.Delay(Timeout.Infinite, context.RequestAborted));
                app.MapGet("/error", static () => "an error page");
            },
            builder => builder.Logging.AddProvider(log),
            address: "http://127.0.0.1:0");
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 10_000 };
        await client.ConnectAsync(IPAddress.Loopback, new Uri(app.Address).Port, TestContext.Current.CancellationToken);
        client.Send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"u8);
        client.Shutdown(SocketShutdown.Send);
        Assert.Equal(0, client.Receive(new byte[1_000]));
        Assert.True(ProcessState.Becomes(() => log.Lines.Any(static line => line.Contains("/wait - 499", StringComparison.Ordinal))), string.Join('\n', log.Lines));
    }

    // However the handler ends: by an exception, or as if nothing were.
    [Fact]
    public async Task A_request_that_is_aborted_before_its_answer_is_499_to_hosting()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(
            static app =>
            {
                app.MapGet("/abort", static context =>
                {
                    context.Abort();
                    return Task.CompletedTask;
                });
                app.MapGet("/quiet", static async context => await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing));
            },
            builder => builder.Logging.AddProvider(log),
            address: "http://127.0.0.1:0");
        foreach (string path in new[] { "/abort", "/quiet" })
        {
            using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            await client.ConnectAsync(IPAddress.Loopback, new Uri(app.Address).Port, TestContext.Current.CancellationToken);
            client.Send(System.Text.Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            Assert.True(ProcessState.Becomes(() => log.Lines.Any(line => line.Contains($"Request starting HTTP/1.1 GET http://a{path}", StringComparison.Ordinal))), string.Join('\n', log.Lines));
            client.LingerState = new LingerOption(enable: true, seconds: 0);
            client.Close();
            Assert.True(ProcessState.Becomes(() => log.Lines.Any(line => line.Contains($"{path} - 499", StringComparison.Ordinal))), string.Join('\n', log.Lines));
        }
    }

    // Output caching announces a length and aborts where the client of a cached answer has left; most handlers just let the exception pass.
    [Theory]
    [InlineData("throws", ApplicationProtocol.Http)]
    [InlineData("throws", ApplicationProtocol.FastCgi)]
    [InlineData("announces", ApplicationProtocol.Http)]
    [InlineData("announces", ApplicationProtocol.FastCgi)]
    [InlineData("begins", ApplicationProtocol.Http)]
    [InlineData("begins", ApplicationProtocol.FastCgi)]
    public async Task A_client_that_leaves_is_no_failure_of_the_application(string how, ApplicationProtocol protocol)
    {
        string route = $"/left-{how}-{protocol}";
        var failures = new ConcurrentQueue<string>();
        using var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Name == "http.server.request.duration")
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        listener.SetMeasurementEventCallback<double>((_, _, tags, _) =>
        {
            if (tags.ToArray().Any(tag => tag.Key == "http.route" && route.Equals(tag.Value)))
            {
                failures.Enqueue(tags.ToArray().FirstOrDefault(static tag => tag.Key == "error.type").Value as string ?? "none");
            }
        });
        listener.Start();
        using var log = new CollectedLog();
        using var folder = new SocketFolder();
        using var entered = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(
            app => app.MapGet(route, async context =>
            {
                context.Response.ContentLength = how == "throws" ? null : 10;
                if (how == "begins")
                {
                    await context.Response.WriteAsync("short");
                }

                entered.Release();
                await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(how == "throws" ? ConfigureAwaitOptions.None : ConfigureAwaitOptions.SuppressThrowing);
                if (how == "announces")
                {
                    context.Abort();
                }
            }),
            builder => builder.Logging.AddProvider(log),
            address: $"{(protocol == ApplicationProtocol.Http ? "http" : "fastcgi")}://unix:{folder.PathOf("app.sock")}");
        using (var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            await client.ConnectAsync(new UnixDomainSocketEndPoint(folder.PathOf("app.sock")), TestContext.Current.CancellationToken);
            client.Send(protocol == ApplicationProtocol.Http ? System.Text.Encoding.ASCII.GetBytes($"GET {route} HTTP/1.1\r\nHost: a\r\n\r\n") : new FastCgiRequest(route).ToBytes());
            Assert.True(await entered.WaitAsync(20_000, TestContext.Current.CancellationToken));
        }

        Assert.True(ProcessState.Becomes(() => !failures.IsEmpty), string.Join('\n', log.Lines));
        Assert.Equal("none", Assert.Single(failures));
        Assert.DoesNotContain(log.Lines, static line => line.Contains("unhandled exception", StringComparison.Ordinal));
    }

    // The handler has ended well, as far as it knows.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Hosting_is_told_of_an_answer_that_is_shorter_than_announced(bool starts)
    {
        using MeterListener listener = ErrorTypes(out ConcurrentQueue<string?> types);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async context =>
        {
            context.Response.ContentLength = 10;
            if (starts)
            {
                await context.Response.WriteAsync("short");
            }
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal(starts ? 200 : 500, response.Status);
        Assert.True(ProcessState.Becomes(() => types.Contains("System.InvalidOperationException")), string.Join(", ", types));
    }

    // What hosting says of the failure of each request.
    private static MeterListener ErrorTypes(out ConcurrentQueue<string?> types)
    {
        var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Name == "http.server.request.duration")
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        var seen = types = new ConcurrentQueue<string?>();
        listener.SetMeasurementEventCallback<double>((_, _, tags, _) => seen.Enqueue(tags.ToArray().FirstOrDefault(static tag => tag.Key == "error.type").Value as string));
        listener.Start();
        return listener;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Hosting_is_told_of_an_unhandled_exception(bool starts)
    {
        using MeterListener listener = ErrorTypes(out ConcurrentQueue<string?> types);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async context =>
        {
            if (starts)
            {
                await context.Response.WriteAsync("begun");
            }

            throw new InvalidTimeZoneException("thrown on purpose");
        }));
        Assert.Equal(starts ? 200 : 500, app.Get("/").Status);
        Assert.True(ProcessState.Becomes(() => types.Contains("System.InvalidTimeZoneException")), string.Join(", ", types));
    }

    [Fact]
    public async Task An_unhandled_exception_is_logged_by_hosting_and_by_the_server()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static string () => throw new InvalidOperationException("thrown on purpose")), builder => builder.Logging.AddProvider(log));
        Assert.Equal(500, app.Get("/").Status);
        Assert.True(ProcessState.Becomes(() => log.Lines.Any(static line => line.StartsWith("Millrace: Request ", StringComparison.Ordinal))), string.Join('\n', log.Lines));
    }

    [Fact]
    public async Task A_body_longer_than_announced_is_logged_once()
    {
        using var log = new CollectedLog();
        using var folder = new SocketFolder();
        await using MillraceServer server = await MillraceServer.StartAsync(
            folder.NewAddress(),
            static async (request, response) =>
            {
                response.ContentLength = 3;
                await response.FlushAsync();
                response.Write("four"u8);
            },
            logger: log.CreateLogger("Plain"));
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            Assert.False(peer.Exchange(new FastCgiRequest("/")).IsWhole);
        }

        await server.StopAsync();
        Assert.Single(log.Lines, static line => line.Contains("unhandled exception", StringComparison.Ordinal));
    }

    [Fact]
    public async Task The_metrics_of_hosting_appear()
    {
        var seen = new ConcurrentDictionary<string, string>();
        using var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Meter.Name == "Microsoft.AspNetCore.Hosting")
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        listener.SetMeasurementEventCallback<double>((instrument, _, tags, _) => seen[instrument.Name] = string.Join(',', tags.ToArray().Select(static tag => $"{tag.Key}={tag.Value}")));
        listener.SetMeasurementEventCallback<long>((instrument, _, _, _) => seen.TryAdd(instrument.Name, ""));
        listener.Start();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/items/{id}", static (int id) => $"{id}"));
        Assert.Equal("5", app.Get("/items/5").Text);
        Assert.True(ProcessState.Becomes(() => seen.ContainsKey("http.server.request.duration")), string.Join(", ", seen));
        Assert.Contains("http.route=/items/{id}", seen["http.server.request.duration"], StringComparison.Ordinal);
        Assert.Contains("http.response.status_code=200", seen["http.server.request.duration"], StringComparison.Ordinal);
        Assert.Contains("http.server.active_requests", seen.Keys);
    }
}
