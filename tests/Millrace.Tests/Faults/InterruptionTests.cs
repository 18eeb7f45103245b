// Thread.Interrupt for a thread that handlers run on: by a handler, or by a watchdog that comes too late. It meets no other
// request, ends no thread, and breaks nothing that the server was waiting for.

using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

[Collection(AloneCollection.Name)]
public sealed class InterruptionTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly CollectedLog _log = new();

    public void Dispose()
    {
        _log.Dispose();
        _folder.Dispose();
    }

    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Workers)]
    public async Task An_interruption_that_a_handler_leaves_pending_does_not_meet_the_next(DispatchMode dispatch)
    {
        var threads = new ConcurrentDictionary<int, int>();
        await using MillraceServer server = await Start(
            (request, response) =>
            {
                threads.AddOrUpdate(Environment.CurrentManagedThreadId, 1, static (_, runs) => runs + 1);
                Thread.Sleep(1);        // throws where one is pending
                response.WriteText(request.Path);
                Thread.CurrentThread.Interrupt();
            },
            dispatch);
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);
        }

        Assert.Contains(threads.Values, static runs => runs > 1);
        Assert.Empty(_log.Lines);
    }

    [Fact]
    public async Task A_watchdog_that_comes_too_late_does_not_meet_the_next_request_nor_end_a_thread_that_stands_by()
    {
        Thread? last = null;
        await using MillraceServer server = await Start(
            (request, response) =>
            {
                last = Thread.CurrentThread;
                Thread.Sleep(request.Path == "/block" ? 30 : 1);    // 30: the loop is handed over, and this thread stands by afterwards
                response.WriteText(request.Path);
            },
            DispatchMode.Inline);
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 60; i++)
        {
            string path = i % 3 == 0 ? "/block" : "/";
            Assert.Equal(path, peer.Exchange(new FastCgiRequest(path)).Text);
            last!.Interrupt();
        }

        Assert.True(server.Engine.Loops[0].Counters.HandOvers > 0);
        Assert.Empty(_log.Lines);
    }

    // Interrupted user code may fail. The server does not: each request has an answer, nothing is left over, and the next are served.
    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Adaptive)]
    [InlineData(DispatchMode.Workers)]
    public async Task Interruptions_at_any_moment_break_nothing_of_the_server(DispatchMode dispatch)
    {
        var threads = new ConcurrentDictionary<Thread, bool>();
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            async (request, response) =>
            {
                if (Thread.CurrentThread.Name == "Millrace driver")
                {
                    threads.TryAdd(Thread.CurrentThread, true);
                }

                if (request.Path == "/block")
                {
                    Thread.Sleep(5);
                }

                byte[] buffer = new byte[8 * 1024];
                int length = 0;
                while (await request.Body.ReadAsync(buffer) is > 0 and int count)
                {
                    length += count;
                }

                await response.WriteAsync(new byte[length]);
            },
            new MillraceOptions { Loops = 2, Dispatch = dispatch, MaxConcurrentRequests = 6, RequestBodyBuffer = 16 * 1024 },
            _log.CreateLogger("Millrace"));
        string address = server.Addresses[0];
        using var over = new CancellationTokenSource();
        var watchdogs = ClientThreads.Start(1, _ =>
        {
            while (!over.IsCancellationRequested)
            {
                foreach (Thread thread in threads.Keys)
                {
                    thread.Interrupt();
                }
            }
        });
        var clients = ClientThreads.Start(8, client =>
        {
            var body = new byte[100_000];
            long until = Environment.TickCount64 + 2_000;
            FastCgiPeer? peer = null;
            while (Environment.TickCount64 < until)
            {
                peer ??= FastCgiPeer.Connect(address);
                FastCgiResponse response = peer.Exchange(new FastCgiRequest(client % 2 == 0 ? "/block" : "/", "POST") { Body = body });
                if (!response.IsWhole)
                {
                    peer.Dispose();     // broken off because the handler failed
                    peer = null;
                }
                else
                {
                    Assert.True(response.Status == 500 || response.Body.Length == body.Length, $"{response}");
                }
            }

            peer?.Dispose();
        });
        try
        {
            clients.Join();
        }
        catch (AggregateException error)
        {
            Assert.Fail(error + "\n" + string.Join('\n', _log.Lines.Where(static line => !line.Contains("an unhandled", StringComparison.Ordinal))));
        }

        over.Cancel();
        watchdogs.Join();
        using (FastCgiPeer peer = FastCgiPeer.Connect(address))
        {
            for (int i = 0; i < 50; i++)
            {
                Assert.Equal(10, peer.Exchange(new FastCgiRequest("/block", "POST") { Body = new byte[10] }).Body.Length);
            }
        }

        Assert.NotEmpty(threads);
        Assert.True(ProcessState.Becomes(() => server.Engine.Services.Connections == 0));
        string[] errors = [.. _log.Lines.Where(static line => line.Contains("Internal error", StringComparison.Ordinal))];
        Assert.True(errors.Length == 0, string.Join('\n', errors));
    }

    private Task<MillraceServer> Start(Action<Request, Response> handler, DispatchMode dispatch) => MillraceServer.StartAsync(
        _folder.NewAddress(), handler, new MillraceOptions { Loops = 1, Dispatch = dispatch }, _log.CreateLogger("Millrace"));
}
