// What an application is told of an HTTP connection beyond its requests: that it is to end, and that it has ended.

using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ConnectionEndTests
{
    private readonly ConcurrentQueue<string> _told = new();

    [Fact]
    public async Task What_is_kept_for_a_connection_is_told_of_its_end_behind_its_requests_and_not_before()
    {
        int left = 0;
        await using HostedApp app = await StartAsync(app => app.MapGet("/{page}", async (string page, HttpContext context) =>
        {
            if (page == "leave")
            {
                await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                Interlocked.Increment(ref left);
            }

            if (page == "first")
            {
                Lifetime(context).ConnectionClosed.Register(() => _told.Enqueue("closed"));
                IConnectionCompleteFeature complete = context.Features.Get<IConnectionCompleteFeature>()!;
                complete.OnCompleted(state => Tell("one", state), 1);
                complete.OnCompleted(static _ => throw new InvalidOperationException("The application's own."), new object());
                complete.OnCompleted(state => Tell("two", state), 2);
            }

            return page;
        }));
        using (Socket client = await ConnectAsync(app))
        {
            Assert.EndsWith("first\r\n0\r\n\r\n", Exchange(client, "/first"), StringComparison.Ordinal);
            Assert.EndsWith("second\r\n0\r\n\r\n", Exchange(client, "/second"), StringComparison.Ordinal);
            for (int i = 0; i < 10; i++)
            {
                using (Socket other = await ConnectAsync(app))
                {
                    Send(other, "/leave");
                }

                Assert.True(ProcessState.Becomes(() => Volatile.Read(ref left) > i));
            }

            Assert.Empty(_told);
        }

        Assert.True(ProcessState.Becomes(() => _told.Count == 3), string.Join(' ', _told));
        Assert.Equal(["two 2", "one 1"], _told.Where(static line => line != "closed"));
    }

    [Fact]
    public async Task A_peer_that_leaves_is_told_of_at_once_and_the_end_when_the_handler_has_ended()
    {
        var gate = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HostedApp app = await StartAsync(app => app.MapGet("/", async context =>
        {
            Lifetime(context).ConnectionClosed.Register(() => _told.Enqueue("closed"));
            context.Features.Get<IConnectionCompleteFeature>()!.OnCompleted(state => Tell("completed", state), 1);
            _told.Enqueue("running");
            await gate.Task;
            _told.Enqueue("ended");
        }));
        using (Socket client = await ConnectAsync(app))
        {
            Send(client, "/");
            Assert.True(ProcessState.Becomes(() => !_told.IsEmpty));
        }

        Assert.True(ProcessState.Becomes(() => _told.Contains("closed")), string.Join(' ', _told));
        gate.SetResult();
        Assert.True(ProcessState.Becomes(() => _told.Contains("completed 1")), string.Join(' ', _told));
        Assert.Equal(["running", "closed", "ended", "completed 1"], _told);
    }

    public static TheoryData<Leaves, When> Ends
    {
        get
        {
            var all = new TheoryData<Leaves, When>();
            foreach (Leaves how in Enum.GetValues<Leaves>())
            {
                foreach (When when in Enum.GetValues<When>())
                {
                    all.Add(how, when);
                }
            }

            return all;
        }
    }

    public enum Leaves
    {
        ByClosing,
        ByReset,
        BySendingNoMore,
    }

    public enum When
    {
        InALaterRequest,
        BehindTheHandler,
        BehindTheTimeLimit,
        BeforeAnybodyAsked,
    }

    // The end of its peer is the connection's matter: whichever request is in progress then, however far it is, and whatever it has been told before.
    [Theory]
    [MemberData(nameof(Ends))]
    public async Task A_peer_that_leaves_is_told_of_also_where_its_request_says_nothing(Leaves how, When when)
    {
        CancellationToken closed = default;
        var gate = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var fired = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HostedApp app = await StartAsync(
            app => app.MapGet("/{page}", async (string page, HttpContext context) =>
            {
                switch (page)
                {
                    case "taken":
                        closed = Lifetime(context).ConnectionClosed;
                        break;
                    case "waits":
                        _told.Enqueue("running");
                        await gate.Task;
                        break;
                    case "behind":
                        closed = Lifetime(context).ConnectionClosed;
                        context.Response.OnCompleted(() =>
                        {
                            _told.Enqueue("running");
                            return gate.Task;
                        });
                        break;
                    case "late":
                        closed = Lifetime(context).ConnectionClosed;
                        await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                        _told.Enqueue("running");
                        await gate.Task;
                        break;
                    default:
                        _told.Enqueue("running");
                        await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                        closed = Lifetime(context).ConnectionClosed;
                        fired.SetResult();
                        await gate.Task;
                        break;
                }

                return page;
            }),
            options => options.RequestTimeout = when == When.BehindTheTimeLimit ? TimeSpan.FromMilliseconds(200) : TimeSpan.Zero);
        using Socket client = await ConnectAsync(app);
        switch (when)
        {
            case When.InALaterRequest:
                Assert.EndsWith("taken\r\n0\r\n\r\n", Exchange(client, "/taken"), StringComparison.Ordinal);
                Send(client, "/waits");
                break;
            case When.BehindTheHandler:
                Assert.EndsWith("behind\r\n0\r\n\r\n", Exchange(client, "/behind"), StringComparison.Ordinal);
                break;
            case When.BehindTheTimeLimit:
                Send(client, "/late");
                break;
            default:
                Send(client, "/unasked");
                break;
        }

        Assert.True(ProcessState.Becomes(() => !_told.IsEmpty));
        Assert.False(closed.IsCancellationRequested);
        switch (how)
        {
            case Leaves.ByReset:
                client.LingerState = new LingerOption(true, 0);
                client.Close();
                break;
            case Leaves.ByClosing:
                client.Close();
                break;
            default:
                client.Shutdown(SocketShutdown.Send);
                break;
        }

        if (when == When.BeforeAnybodyAsked)
        {
            await fired.Task.WaitAsync(TimeSpan.FromSeconds(10), TestContext.Current.CancellationToken);
        }

        Assert.True(ProcessState.Becomes(() => closed.IsCancellationRequested));
        gate.SetResult();
    }

    [Fact]
    public async Task A_connection_that_goes_on_behind_an_abort_has_not_ended()
    {
        CancellationToken closed = default;
        var arrived = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var aborted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HostedApp app = await StartAsync(app => app.MapGet("/{page}", async (string page, HttpContext context) =>
        {
            if (page == "first")
            {
                closed = Lifetime(context).ConnectionClosed;
                await context.Response.WriteAsync(page);
                await context.Response.CompleteAsync();
                await arrived.Task;
                context.Abort();
                aborted.SetResult();
                return;
            }

            await context.Response.WriteAsync($"{page} {closed.IsCancellationRequested}");
        }));
        using (Socket client = await ConnectAsync(app))
        {
            Assert.EndsWith("first\r\n0\r\n\r\n", Exchange(client, "/first"), StringComparison.Ordinal);
            arrived.SetResult();
            await aborted.Task;
            Assert.Contains("second False\r\n", Exchange(client, "/second"), StringComparison.Ordinal);
        }

        Assert.True(ProcessState.Becomes(() => closed.IsCancellationRequested));
    }

    [Fact]
    public async Task An_abort_by_the_application_ends_the_connection_for_who_is_told_of_that()
    {
        CancellationToken closed = default;
        bool hasFired = false;
        await using HostedApp app = await StartAsync(app => app.MapGet("/{page}", async (string page, HttpContext context) =>
        {
            if (page == "first")
            {
                closed = Lifetime(context).ConnectionClosed;
                await context.Response.WriteAsync(page);
                return;
            }

            context.Abort();
            await Task.Delay(TimeSpan.FromSeconds(10), closed).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            Volatile.Write(ref hasFired, closed.IsCancellationRequested);
        }));
        using Socket client = await ConnectAsync(app);
        Assert.EndsWith("first\r\n0\r\n\r\n", Exchange(client, "/first"), StringComparison.Ordinal);
        Send(client, "/second");
        Assert.True(ProcessState.Becomes(() => Volatile.Read(ref hasFired)));
    }

    // The connection goes on: middleware for time limits puts its own token in the place of the request's, too.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_time_limit_of_a_request_is_no_end_of_its_connection(bool isServers)
    {
        CancellationToken closed = default;
        await using HostedApp app = await StartAsync(
            app => app.MapGet("/{page}", async (string page, HttpContext context) =>
            {
                if (page == "slow")
                {
                    using var own = new CancellationTokenSource(200);
                    context.RequestAborted = isServers ? context.RequestAborted : own.Token;
                    closed = Lifetime(context).ConnectionClosed;
                    await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                }

                return page;
            }),
            options => options.RequestTimeout = isServers ? TimeSpan.FromMilliseconds(200) : TimeSpan.Zero);
        using (Socket client = await ConnectAsync(app))
        {
            Assert.EndsWith("slow\r\n0\r\n\r\n", Exchange(client, "/slow"), StringComparison.Ordinal);
            Assert.False(closed.IsCancellationRequested);
            Assert.EndsWith("next\r\n0\r\n\r\n", Exchange(client, "/next"), StringComparison.Ordinal);
            Assert.False(closed.IsCancellationRequested);
        }

        Assert.True(ProcessState.Becomes(() => closed.IsCancellationRequested));
    }

    [Theory]
    [InlineData("asks")]
    [InlineData("stops")]
    public async Task A_stream_that_waits_for_the_wish_to_close_ends_with_it(string how)
    {
        var begun = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HostedApp app = await StartAsync(app => app.MapGet("/", async context =>
        {
            IConnectionLifetimeNotificationFeature notification = context.Features.Get<IConnectionLifetimeNotificationFeature>()!;
            CancellationToken requested = notification.ConnectionClosedRequested;
            if (how == "asks")
            {
                notification.RequestClose();
            }

            begun.SetResult();
            await Task.Delay(Timeout.Infinite, requested).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await context.Response.WriteAsync($"{context.RequestAborted.IsCancellationRequested} {Lifetime(context).ConnectionClosed.IsCancellationRequested}");
        }));
        using Socket client = await ConnectAsync(app);
        Send(client, "/");
        await begun.Task.WaitAsync(TestContext.Current.CancellationToken);
        Task stopped = how == "stops" ? app.App.StopAsync(TestContext.Current.CancellationToken) : Task.CompletedTask;
        Assert.Contains("\r\nFalse False\r\n", Receive(client), StringComparison.Ordinal);
        await stopped;
    }

    private static Task<HostedApp> StartAsync(Action<WebApplication> map, Action<MillraceOptions>? options = null) =>
        HostedApp.StartAsync(map, options: options, address: "http://127.0.0.1:0");

    private static IConnectionLifetimeFeature Lifetime(HttpContext context) => context.Features.Get<IConnectionLifetimeFeature>()!;

    private Task Tell(string what, object state)
    {
        _told.Enqueue($"{what} {state}");
        return Task.CompletedTask;
    }

    private static async Task<Socket> ConnectAsync(HostedApp app)
    {
        var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 10_000 };
        await client.ConnectAsync(IPAddress.Loopback, new Uri(app.Address).Port, TestContext.Current.CancellationToken);
        return client;
    }

    private static void Send(Socket client, string path) => client.Send(Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));

    private static string Exchange(Socket client, string path)
    {
        Send(client, path);
        return Receive(client);
    }

    private static string Receive(Socket client)
    {
        var text = new StringBuilder();
        var bytes = new byte[4_096];
        while (!text.ToString().EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal) && client.Receive(bytes) is > 0 and int count)
        {
            text.Append(Encoding.ASCII.GetString(bytes, 0, count));
        }

        return text.ToString();
    }
}
