// The response as ASP.NET Core sees it: callbacks, starting, failing, aborting.

using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Primitives;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ResponseFeatureTests
{
    [Fact]
    public async Task OnStarting_runs_before_the_head_the_last_registered_first()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static (HttpContext context) =>
        {
            foreach (string name in (string[])["first", "second", "third"])
            {
                context.Response.OnStarting(async () =>
                {
                    await Task.Yield();
                    Assert.False(context.Response.HasStarted);
                    context.Response.Headers.Append("X-Order", name);
                });
            }

            return "body";
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal(("third|second|first", "body"), (response["X-Order"], response.Text));
    }

    [Fact]
    public async Task OnStarting_callbacks_that_wait_run_one_after_the_other_and_all_before_the_head()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static context =>
        {
            int running = 0;
            foreach (string name in (string[])["first", "second"])
            {
                context.Response.OnStarting(async () =>
                {
                    Assert.Equal(1, Interlocked.Increment(ref running));
                    await Task.Delay(name == "second" ? 50 : 1);
                    context.Response.Headers.Append("X-Order", name);
                    _ = Interlocked.Decrement(ref running);
                });
            }

            return Task.CompletedTask;
        }));
        Assert.Equal("second|first", app.Get("/")["X-Order"]);
    }

    [Fact]
    public async Task OnCompleted_that_a_callback_of_OnStarting_asks_for_runs()
    {
        var completed = new TaskCompletionSource();
        await using HostedApp app = await HostedApp.StartAsync(app => app.Run(context =>
        {
            context.Response.OnStarting(() =>
            {
                context.Response.OnCompleted(() =>
                {
                    completed.TrySetResult();
                    return Task.CompletedTask;
                });
                return Task.CompletedTask;
            });
            return Task.CompletedTask;
        }));
        Assert.Equal(200, app.Get("/").Status);
        await completed.Task.WaitAsync(TimeSpan.FromSeconds(10), TestContext.Current.CancellationToken);
    }

    [Fact]
    public async Task OnCompleted_runs_after_the_last_byte_has_left_the_last_registered_first()
    {
        using var received = new SemaphoreSlim(0);
        var order = new List<string>();
        using var completed = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", (HttpContext context) =>
        {
            context.Response.OnCompleted(() =>
            {
                order.Add("first");
                completed.Release();
                return Task.CompletedTask;
            });
            context.Response.OnCompleted(async () => order.Add(await received.WaitAsync(10_000) ? "second, answer received" : "second, answer held back"));
            return "body";
        }));
        using FastCgiPeer peer = app.Connect();
        FastCgiResponse response = peer.Exchange(new FastCgiRequest("/"));
        Assert.True(response.IsWhole && response.Text == "body", response.ToString());
        received.Release();
        Assert.True(await completed.WaitAsync(10_000));
        Assert.Equal(["second, answer received", "first"], order);
        Assert.True(peer.Exchange(new FastCgiRequest("/none")).IsWhole);
    }

    [Fact]
    public async Task An_exception_before_the_first_byte_is_an_empty_500_without_the_fields_set_so_far()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static string (HttpContext context) =>
        {
            context.Response.Headers["X-Set"] = "before";
            context.Response.OnStarting(static () => throw new InvalidOperationException("not to be run"));
            throw new NotSupportedException("thrown on purpose");
        }));
        FastCgiResponse response = app.Get("/");
        Assert.True(response.IsWhole, response.ToString());
        Assert.Equal((500, "0", null, 0), (response.Status, response["Content-Length"], response["X-Set"], response.Body.Length));
        Assert.Contains("System.NotSupportedException", response.Stderr, StringComparison.Ordinal);
        Assert.DoesNotContain("thrown on purpose", response.Stderr, StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_exception_after_the_first_byte_cuts_the_answer()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static async (HttpContext context) =>
        {
            await context.Response.WriteAsync("half");
            await context.Response.Body.FlushAsync();
            throw new NotSupportedException("thrown on purpose");
        }));
        using FastCgiPeer peer = app.Connect();
        FastCgiResponse response = peer.Exchange(new FastCgiRequest("/"));
        Assert.Equal((null, true), (response.End, response.IsBroken));
        Assert.Equal("half", response.Text);
    }

    [Fact]
    public async Task A_response_that_has_started_is_not_changed_any_more()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static async (HttpContext context) =>
        {
            await context.Response.StartAsync();
            int refused = 0;
            Action[] changes =
            [
                () => context.Response.StatusCode = 404,
                () => context.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = "Changed",
                () => context.Response.Headers["X-Late"] = "1",
                () => context.Response.ContentType = "text/html",
                () => context.Response.OnStarting(static () => Task.CompletedTask),
                () => context.Features.GetRequiredFeature<IHttpResponseFeature>().Headers = new HeaderDictionary(),
            ];
            foreach (Action change in changes)
            {
                try
                {
                    change();
                }
                catch (InvalidOperationException)
                {
                    refused++;
                }
            }

            await context.Response.WriteAsync($"{context.Response.HasStarted} {refused}");
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal((200, "True 6", null), (response.Status, response.Text, response["X-Late"]));
    }

    [Fact]
    public async Task A_replaced_header_collection_is_what_is_sent()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static (HttpContext context) =>
        {
            context.Response.Headers["X-Old"] = "1";
            context.Features.GetRequiredFeature<IHttpResponseFeature>().Headers = new HeaderDictionary { ["X-New"] = new StringValues(["2", "3"]) };
            context.Response.StatusCode = 202;
            return Task.CompletedTask;
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal((202, null, "2|3"), (response.Status, response["X-Old"], response["X-New"]));
    }

    [Fact]
    public async Task Abort_ends_the_connection_and_fires_RequestAborted()
    {
        using var fired = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            context.RequestAborted.Register(() => fired.Release());
            await context.Response.WriteAsync("never to be taken for a whole answer");
            context.Abort();
        }));
        using FastCgiPeer peer = app.Connect();
        FastCgiResponse response = peer.Exchange(new FastCgiRequest("/"));
        Assert.Null(response.End);
        Assert.True(await fired.WaitAsync(10_000));
    }

    [Theory]
    [InlineData(204)]
    [InlineData(304)]
    public async Task A_status_without_a_body_has_none_RFC9110_6_4_1(int status)
    {
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", () => Results.StatusCode(status)));
        FastCgiResponse response = app.Get("/");
        Assert.True(response.IsWhole, response.ToString());
        Assert.Equal((status, 0), (response.Status, response.Body.Length));
    }

    [Fact]
    public async Task HEAD_has_the_length_of_GET_and_no_body_RFC9110_9_3_2()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapMethods("/", ["GET", "HEAD"], static async (HttpContext context) =>
        {
            context.Response.ContentLength = 5;
            await context.Response.WriteAsync("12345");
        }));
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/", "HEAD"));
        Assert.True(response.IsWhole, response.ToString());
        Assert.Equal(("5", 0), (response["Content-Length"], response.Body.Length));
    }

    [Fact]
    public async Task Writer_and_stream_write_one_body_in_the_order_of_the_calls()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static async (HttpContext context) =>
        {
            context.Response.BodyWriter.GetSpan(4).Slice(0, 1).Fill((byte)'a');
            context.Response.BodyWriter.Advance(1);
            await context.Response.Body.WriteAsync("b"u8.ToArray());
            await context.Response.BodyWriter.WriteAsync("c"u8.ToArray());
            await context.Response.CompleteAsync();
        }));
        FastCgiResponse response = app.Get("/");
        Assert.True(response.IsWhole && response.Text == "abc", response.ToString());
    }

    [Fact]
    public async Task A_line_that_is_flushed_arrives_before_the_next_is_written()
    {
        using var next = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            for (int i = 0; i < 3; i++)
            {
                await context.Response.WriteAsync($"line {i}\n");
                await context.Response.Body.FlushAsync();
                Assert.True(await next.WaitAsync(10_000));
            }
        }));
        using FastCgiPeer peer = app.Connect();
        peer.Send(new FastCgiRequest("/").ToBytes());
        Assert.EndsWith("line 0\n", peer.ReceiveSome(1), StringComparison.Ordinal);
        next.Release();
        Assert.Equal("line 1\n", peer.ReceiveSome(1));
        next.Release();
        Assert.Equal("line 2\n", peer.ReceiveSome(1));
        next.Release();
        Assert.NotNull(peer.Receive().End);
    }

    [Theory]
    [InlineData(2)]
    [InlineData(50_000)]
    public async Task A_write_of_more_than_the_content_length_does_not_start_the_answer(int size)
    {
        bool? started = null;
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            context.Response.ContentLength = 1;
            try
            {
                await context.Response.Body.WriteAsync(new byte[size]);
            }
            catch (InvalidOperationException)
            {
                started = context.Response.HasStarted;
                context.Response.Clear();
                context.Response.StatusCode = 503;
                await context.Response.WriteAsync("sorry");
            }
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal((false, 503, "sorry", true), (started, response.Status, response.Text, response.IsWhole));
    }

    // As on Kestrel.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi, false, false)]
    [InlineData(ApplicationProtocol.FastCgi, true, false)]
    [InlineData(ApplicationProtocol.FastCgi, false, true)]
    [InlineData(ApplicationProtocol.Http, false, false)]
    [InlineData(ApplicationProtocol.Http, true, false)]
    [InlineData(ApplicationProtocol.Http, false, true)]
    public async Task A_writer_that_is_completed_ends_the_answer_while_its_handler_goes_on(ApplicationProtocol protocol, bool isFlushed, bool isStream)
    {
        using var received = new SemaphoreSlim(0);
        await using UnixApp app = await UnixApp.StartAsync(protocol, app => app.MapGet("/", async (HttpContext context) =>
        {
            PipeWriter writer = context.Response.BodyWriter;
            "all"u8.CopyTo(writer.GetSpan(3));
            writer.Advance(3);
            if (isFlushed)
            {
                await writer.FlushAsync();
            }

            if (isStream)
            {
                await writer.AsStream().DisposeAsync();
            }
            else
            {
                writer.Complete();
            }

            await received.WaitAsync(TimeSpan.FromSeconds(20));
            Assert.Throws<InvalidOperationException>(() => context.Response.StatusCode = 500);
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await context.Response.Body.WriteAsync("more"u8.ToArray()));
            Assert.Throws<InvalidOperationException>(() => writer.Advance(0));
            writer.Complete();
            await writer.CompleteAsync();
            throw new InvalidOperationException("late");
        }));
        for (int i = 0; i < 2; i++)
        {
            UnixAnswer answer = await app.Get("/").WaitAsync(TimeSpan.FromSeconds(10), TestContext.Current.CancellationToken);
            Assert.Equal((200, "all"), (answer.Status, answer.Text));
            received.Release();
        }
    }

    // As on Kestrel: who writes through memory, such as a serializer, does not look at the status.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi, 204)]
    [InlineData(ApplicationProtocol.FastCgi, 304)]
    [InlineData(ApplicationProtocol.Http, 204)]
    [InlineData(ApplicationProtocol.Http, 304)]
    public async Task What_is_advanced_over_ahead_of_a_head_without_a_body_is_left_out(ApplicationProtocol protocol, int status)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, app => app.MapGet("/{way}", async (HttpContext context, string way) =>
        {
            context.Response.StatusCode = status;
            PipeWriter writer = context.Response.BodyWriter;
            if (way == "memory")
            {
                "left out"u8.CopyTo(writer.GetMemory(8).Span);
            }
            else
            {
                "left out"u8.CopyTo(writer.GetSpan(8));
            }

            writer.Advance(8);
            if (way == "flush")
            {
                await writer.FlushAsync();
            }
        }));
        foreach (string way in (string[])["memory", "span", "flush"])
        {
            UnixAnswer answer = await app.Get("/" + way);
            Assert.Equal((status, ""), (answer.Status, answer.Text));
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_handler_that_throws_behind_its_completed_answer_takes_nothing_away(bool isBadRequest)
    {
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            await context.Response.WriteAsync("all");
            await context.Response.CompleteAsync();
            throw isBadRequest ? new BadHttpRequestException("late") : new InvalidOperationException("late");
        }));
        using FastCgiPeer peer = app.Connect();
        for (int i = 0; i < 2; i++)
        {
            FastCgiResponse response = peer.Exchange(new FastCgiRequest("/"));
            Assert.True(response is { IsWhole: true, IsBroken: false, Text: "all" }, response.ToString());
        }
    }

    [Fact]
    public async Task Behind_a_completed_answer_of_a_handler_that_throws_nothing_is_sent_over_http()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/", static async (HttpContext context) =>
            {
                await context.Response.WriteAsync("all");
                await context.Response.CompleteAsync();
                throw new InvalidOperationException("late");
            }),
            address: "http://127.0.0.1:0");
        using var client = new TcpClient();
        await client.ConnectAsync(IPAddress.Loopback, new Uri(app.Address).Port);
        await client.GetStream().WriteAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"u8.ToArray());
        string all = await new StreamReader(client.GetStream()).ReadToEndAsync();
        Assert.Equal(2, all.Split("\r\nall\r\n0\r\n\r\n").Length - 1);
        Assert.EndsWith("\r\n0\r\n\r\n", all, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(null, 0L)]
    [InlineData("x", null)]
    public async Task An_answer_without_a_byte_has_a_length_of_0_in_OnCompleted(string? text, long? expected)
    {
        var seen = new TaskCompletionSource<long?>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            context.Response.OnCompleted(() =>
            {
                seen.SetResult(context.Response.ContentLength);
                return Task.CompletedTask;
            });
            if (text is not null)
            {
                await context.Response.WriteAsync(text);
            }
        }));
        Assert.True(app.Get("/").IsWhole);
        Assert.Equal(expected, await seen.Task.WaitAsync(TimeSpan.FromSeconds(20)));
    }

    [Fact]
    public async Task A_file_whose_token_is_cancelled_before_starts_nothing()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static async (HttpContext context) =>
        {
            OperationCanceledException error = await Assert.ThrowsAnyAsync<OperationCanceledException>(
                () => context.Response.SendFileAsync(typeof(HostedApp).Assembly.Location, 0, 100, new CancellationToken(canceled: true)));
            await context.Response.WriteAsync($"{context.Response.HasStarted} {error is not null}");
        }));
        FastCgiResponse response = app.Get("/");
        Assert.True(response is { IsWhole: true, Text: "False True" }, response.ToString());
    }

    [Fact]
    public async Task Too_few_bytes_for_the_content_length_are_never_taken_for_a_whole_answer()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.MapGet("/before", static (HttpContext context) =>
            {
                context.Response.ContentLength = 10;
                return Task.CompletedTask;
            });
            app.MapGet("/after", static async (HttpContext context) =>
            {
                context.Response.ContentLength = 10;
                await context.Response.WriteAsync("12345");
                await context.Response.Body.FlushAsync();
            });
        });
        Assert.Equal(500, app.Get("/before").Status);
        FastCgiResponse cut = app.Get("/after");
        Assert.Equal((200, null, true, 5), (cut.Status, cut.End, cut.IsBroken, Encoding.UTF8.GetByteCount(cut.Text)));
    }
}
