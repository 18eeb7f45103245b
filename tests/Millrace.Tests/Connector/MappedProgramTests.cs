// A program behind MapFastCgi on Millrace: what goes on with its answer does so on a loop, as code of an application that may do anything there, and whoever leaves or ends leaves nothing behind.

using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Connector;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed partial class MappedProgramTests : IDisposable
{
    private const string Driver = "Millrace driver";

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    private TalkingProgram Program(Func<TalkingProgram.Visit, Task> answer) => new(_folder.PathOf("program.sock"), answer);

    private TalkingProgram Program() => Program(static visit => visit.SayAsync(TalkingProgram.Whole("body")));

    private static Task<HostedApp> StartAsync(TalkingProgram program, Action<WebApplication>? before = null, Action<MillraceOptions>? options = null, bool keeps = true) => HostedApp.StartAsync(
        app =>
        {
            before?.Invoke(app);
            app.MapGet("/plain", static () => "plain");
            app.MapFastCgi("/p/{**path}", program.Address, its => its.KeepConnections = keeps);
        },
        options: options ?? (static its => (its.Loops, its.Dispatch) = (1, DispatchMode.Inline)));

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_answer_goes_on_on_the_loop(bool keeps)
    {
        var threads = new List<string?>();
        await using TalkingProgram program = Program(visit =>
        {
            visit.IsKept = keeps;
            return visit.SayAsync(TalkingProgram.Whole("body"));
        });
        await using HostedApp front = await StartAsync(program, app => app.Use(async (context, next) =>
        {
            await next(context);
            threads.Add(Thread.CurrentThread.Name);
        }), keeps: keeps);
        using FastCgiPeer peer = front.Connect();
        for (int i = 0; i < 20; i++)
        {
            FastCgiResponse response = peer.Exchange(new FastCgiRequest("/p/x"));
            Assert.Equal((200, "body"), (response.Status, response.Text));
        }
        Assert.Equal(Enumerable.Repeat(Driver, 15), threads.Skip(5));       // what is run for the first time may take so long that the loop goes to another thread
        Assert.Equal(keeps ? 1 : 20, program.Connections);
    }

    [Fact]
    public async Task Whoever_blocks_behind_the_endpoint_holds_no_other_request_up()
    {
        using var blocks = new ManualResetEventSlim();
        using var goesOn = new ManualResetEventSlim();
        string? thread = null;
        await using TalkingProgram program = Program();
        await using HostedApp front = await StartAsync(program, app => app.Use(async (context, next) =>
        {
            await next(context);
            if (context.Request.Path == "/p/block")
            {
                thread = Thread.CurrentThread.Name;
                blocks.Set();
                goesOn.Wait(s_patience);
            }
        }));
        for (int i = 0; i < 5; i++)
        {
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        Task<FastCgiResponse> blocked = Task.Run(() => front.Get("/p/block"));
        Assert.True(blocks.Wait(s_patience));
        Assert.Equal("plain", front.Get("/plain").Text);
        Assert.Equal("body", front.Get("/p/x").Text);
        Assert.False(blocked.IsCompleted);
        goesOn.Set();
        Assert.Equal("body", (await blocked).Text);
        Assert.Equal(Driver, thread);
    }

    // It sets the body as middleware did before there was IHttpResponseBodyFeature, and changes what others write.
    [Fact]
    public async Task A_file_passes_through_old_middleware()
    {
        string root = _folder.PathOf("www");
        Directory.CreateDirectory(root);
        await File.WriteAllTextAsync(Path.Combine(root, "note.txt"), "hello");
        await using TalkingProgram program = Program();
        await using HostedApp front = await HostedApp.StartAsync(app =>
        {
            app.Use(static async (context, next) =>
            {
                IHttpResponseFeature feature = context.Features.GetRequiredFeature<IHttpResponseFeature>();
                using var written = new MemoryStream();
#pragma warning disable CS0618 // what it is about
                Stream own = feature.Body;
                feature.Body = written;
                await next(context);
                feature.Body = own;
#pragma warning restore CS0618
                context.Response.ContentLength = null;
                await context.Response.WriteAsync($"[{Encoding.ASCII.GetString(written.ToArray()).ToUpperInvariant()}]");
            });
            app.MapFastCgi("/{**path}", program.Address, its => its.Root = root);
        });
        Assert.Equal("[HELLO]", front.Get("/note.txt").Text);
    }

    [Fact]
    public async Task Whoever_throws_behind_the_endpoint_harms_nobody_else()
    {
        await using TalkingProgram program = Program();
        await using HostedApp front = await StartAsync(program, static app => app.Use(static async (context, next) =>
        {
            await next(context);
            if (context.Request.Path == "/p/throw")
            {
                throw new InvalidTimeZoneException("thrown on purpose");
            }
        }));
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal(500, front.Get("/p/throw").Status);
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        Assert.Equal(1, program.Connections);
    }

    [Theory]
    [InlineData(DispatchMode.Workers)]
    [InlineData(DispatchMode.Inline)]
    public async Task It_is_the_same_wherever_handlers_run(DispatchMode mode)
    {
        await using TalkingProgram program = Program();
        await using HostedApp front = await StartAsync(program, options: its => (its.Loops, its.Dispatch) = (1, mode));
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        Assert.Equal(1, program.Connections);
    }

    [Fact]
    public async Task A_request_that_has_left_the_loop_before_is_answered_as_well()
    {
        await using TalkingProgram program = Program();
        await using HostedApp front = await StartAsync(program, static app => app.Use(static async (context, next) =>
        {
            await Task.Yield();
            await next(context);
        }));
        await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => Task.Run(() =>
        {
            for (int i = 0; i < 25; i++)
            {
                Assert.Equal("body", front.Get("/p/x").Text);
            }
        })));
        Assert.InRange(program.Connections, 1, 4);
    }

    [Fact]
    public async Task Whoever_leaves_a_program_that_is_silent_tells_it_so_and_takes_its_connection_along()
    {
        var heard = new TaskCompletionSource<List<RecordType>>(TaskCreationOptions.RunContinuationsAsynchronously);
        var hasCome = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using TalkingProgram program = Program(async visit =>
        {
            if (visit.Number == 2)
            {
                hasCome.SetResult();
                heard.SetResult(await visit.HearToEndAsync());
                return;
            }
            await visit.SayAsync(TalkingProgram.Whole("body"));
        });
        await using HostedApp front = await StartAsync(program);
        Assert.Equal("body", front.Get("/p/x").Text);
        using (FastCgiPeer peer = front.Connect())
        {
            peer.Send(new FastCgiRequest("/p/x").ToBytes());
            await hasCome.Task.WaitAsync(s_patience);
        }
        Assert.Equal([RecordType.AbortRequest], await heard.Task.WaitAsync(s_patience));
        Assert.Equal("body", front.Get("/p/x").Text);
        Assert.Equal(2, program.Connections);
    }

    [Fact]
    public async Task An_answer_in_drips_is_whole_and_one_that_ends_too_early_is_cut_at_every_byte()
    {
        byte[] whole = TalkingProgram.Whole("body");
        int length = whole.Length;
        await using TalkingProgram program = Program(async visit =>
        {
            visit.IsKept = length == whole.Length;
            await visit.SayAsync(whole[..length], chunk: 1);
        });
        await using HostedApp front = await StartAsync(program);
        for (int i = 0; i < 5; i++)
        {
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        for (length = 0; length < whole.Length; length++)
        {
            FastCgiResponse response = front.Get("/p/x");
            Assert.True(!response.IsWhole || response.Status == 502, $"{length} bytes: {response}");
        }
        length = whole.Length;
        Assert.Equal("body", front.Get("/p/x").Text);
    }

    [Fact]
    public async Task A_long_answer_is_whole_to_whoever_reads_slowly_and_lets_others_have_their_turn()
    {
        string longOne = string.Concat(Enumerable.Range(0, 300_000).Select(static i => i.ToString("x6", CultureInfo.InvariantCulture)));
        byte[] answer = [.. ScriptedOut("Content-Type: text/plain\r\n\r\n"), .. longOne.Chunk(60_000).SelectMany(static piece => ScriptedOut(new string(piece))), .. Command.ScriptedResponder.End()];
        await using TalkingProgram program = Program(visit => visit.SayAsync(visit.Parameters.Contains("long", StringComparison.Ordinal) ? answer : TalkingProgram.Whole("body")));
        await using HostedApp front = await StartAsync(program);
        Task<FastCgiResponse> slow = Task.Run(() =>
        {
            using FastCgiPeer peer = front.Connect();
            peer.Send(new FastCgiRequest("/p/long").ToBytes());
            Thread.Sleep(300);
            return peer.Receive();
        });
        while (!slow.IsCompleted)
        {
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        Assert.Equal(longOne, (await slow).Text);
    }

    private static byte[] ScriptedOut(string text) => Command.ScriptedResponder.Record(RecordType.Stdout, text);

    [Fact]
    public async Task A_kept_connection_that_its_program_has_ended_is_not_used_also_for_what_may_not_be_sent_twice()
    {
        await using TalkingProgram program = Program(static visit =>
        {
            visit.IsKept = false;
            return visit.SayAsync(TalkingProgram.Whole("body"));
        });
        await using HostedApp front = await StartAsync(program);
        for (int i = 0; i < 20; i++)
        {
            FastCgiResponse response = front.Exchange(new FastCgiRequest("/p/x", "POST") { Body = "x"u8.ToArray() });
            Assert.Equal((200, "body"), (response.Status, response.Text));
            Assert.True(SpinWait.SpinUntil(() => program.Closed == i + 1, s_patience));      // before that it has not ended it, and is the one to know what it does with a request
            Thread.Sleep(i % 3);
        }
        Assert.Equal(20, program.Requests);
    }

    // A process that a program has forked ends with what it has copied of an answer, and writes it on the connection that it has inherited.
    [Theory]
    [InlineData("GET", 200, "yours")]
    [InlineData("POST", 502, "")]
    public async Task What_comes_once_more_of_another_request_is_nobodys_answer_FastCGI_3_3(string method, int status, string text)
    {
        byte[] mine = [];
        await using TalkingProgram program = Program(async visit =>
        {
            if (visit.Number == 1)
            {
                mine = visit.AsSaid(TalkingProgram.Whole("mine"));
                _ = await visit.Socket.SendAsync(mine);
                return;
            }
            if (visit.Number == 2)
            {
                _ = await visit.Socket.SendAsync(mine);
                await Task.Delay(20);
            }
            await visit.SayAsync(TalkingProgram.Whole("yours"));
        });
        await using HostedApp front = await StartAsync(program);
        Assert.Equal("mine", front.Get("/p/x").Text);
        FastCgiResponse response = front.Exchange(new FastCgiRequest("/p/y", method));
        Assert.Equal((status, text), (response.Status, response.Text));
        Assert.Equal(method == "GET" ? 3 : 2, program.Requests);
        Assert.Equal("yours", front.Get("/p/x").Text);
    }

    // What comes late of one must not have the id of another. The first one's is what programs are used to.
    [Fact]
    public async Task Requests_over_one_connection_have_ids_of_their_own_FastCGI_3_3()
    {
        var ids = new ConcurrentQueue<int>();
        await using TalkingProgram program = Program(visit =>
        {
            ids.Enqueue(visit.Id);
            return visit.SayAsync(TalkingProgram.Whole("body"));
        });
        await using HostedApp front = await StartAsync(program);
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        Assert.Equal(1, program.Connections);
        Assert.Equal(Enumerable.Range(1, 20), ids);
    }

    // Nobody has asked for the token: the program's request is told of the end without one, and whoever swallows that has left off all the same.
    [Fact]
    public async Task An_answer_that_is_left_off_when_its_time_is_over_does_not_pass_for_an_empty_one_RequestTimeout()
    {
        await using TalkingProgram program = Program(static visit => visit.Number == 1 ? visit.SayAsync(TalkingProgram.Whole("body")) : visit.HearToEndAsync());
        await using HostedApp front = await StartAsync(
            program,
            app => app.Use(static async (context, next) =>
            {
                try
                {
                    await next(context);
                }
                catch (OperationCanceledException)
                {
                    // It has been said in the log, as somebody thinks.
                }
            }),
            static its => (its.Loops, its.Dispatch, its.RequestTimeout) = (1, DispatchMode.Inline, TimeSpan.FromSeconds(1)));
        Assert.Equal("body", front.Get("/p/x").Text);
        Assert.Equal(504, front.Get("/p/y").Status);
    }

    [Fact]
    public async Task What_nobody_waits_for_any_more_is_not_begun()
    {
        var left = new TaskCompletionSource();
        var over = new TaskCompletionSource();
        await using TalkingProgram program = Program();
        await using HostedApp front = await StartAsync(program, app => app.Use(async (context, next) =>
        {
            if (context.Request.Path == "/p/late")
            {
                using CancellationTokenRegistration leaves = context.RequestAborted.Register(left.SetResult);
                await left.Task;
                try
                {
                    await next(context);
                }
                finally
                {
                    over.SetResult();
                }
            }
            else
            {
                await next(context);
            }
        }));
        Assert.Equal("body", front.Get("/p/x").Text);
        using (FastCgiPeer peer = front.Connect())
        {
            peer.Send(new FastCgiRequest("/p/late", "POST").ToBytes());
            Assert.Equal("body", front.Get("/p/x").Text);
        }
        await over.Task.WaitAsync(s_patience);
        Assert.Equal(2, program.Requests);
        Assert.Equal("body", front.Get("/p/x").Text);
    }

    [Fact]
    public async Task A_server_that_stops_does_not_wait_for_a_program_that_is_silent()
    {
        var heard = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var hasCome = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using TalkingProgram program = Program(async visit =>
        {
            hasCome.SetResult();
            _ = await visit.HearToEndAsync();
            heard.SetResult();
        });
        await using HostedApp front = await StartAsync(program);
        using FastCgiPeer peer = front.Connect();
        peer.Send(new FastCgiRequest("/p/x").ToBytes());
        await hasCome.Task.WaitAsync(s_patience);
        using var limit = new CancellationTokenSource(200);
        await front.App.StopAsync(limit.Token).WaitAsync(s_patience);
        await heard.Task.WaitAsync(s_patience);
    }

    // A connection that one loop tells of may have a request of another, which outlives the server.
    [Fact]
    public async Task A_request_outlives_the_loop_that_tells_of_its_program()
    {
        var answer = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var hasCome = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var answered = new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously);
        await using TalkingProgram program = Program(async visit =>
        {
            if (visit.Number > 1)
            {
                hasCome.SetResult();
                await answer.Task;
            }
            await visit.SayAsync(TalkingProgram.Whole("body"));
        });
        await using HostedApp front = await StartAsync(
            program,
            app => app.Use(async (context, next) =>
            {
                context.RequestAborted = CancellationToken.None;
                await next(context);
                if (context.Request.Path == "/p/late")
                {
                    answered.SetResult(context.Response.StatusCode);
                }
            }),
            static its => its.Loops = 2);
        FastCgiPeer first = front.Connect();
        Assert.Equal("body", first.Exchange(new FastCgiRequest("/p/x")).Text);
        using FastCgiPeer second = front.Connect();
        second.Send(new FastCgiRequest("/p/late").ToBytes());
        await hasCome.Task.WaitAsync(s_patience);
        Assert.Equal(1, program.Connections);
        first.Dispose();
        using var limit = new CancellationTokenSource(200);
        await front.App.StopAsync(limit.Token).WaitAsync(s_patience);
        answer.SetResult();
        Assert.Equal(200, await answered.Task.WaitAsync(s_patience));
    }

    [GeneratedRegex("id=([0-9]+)")]
    private static partial Regex IdPattern();

    // Several loops, visitors that leave, a program that drips, closes and is late: nobody has the answer of another.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Everybody_has_his_own_answer_whoever_leaves_meanwhile(bool keeps)
    {
        await using TalkingProgram program = Program(async visit =>
        {
            string id = IdPattern().Match(visit.Parameters).Groups[1].Value;
            int seed = int.Parse(id, CultureInfo.InvariantCulture);
            if (seed % 7 == 0)
            {
                await Task.Delay(seed % 5);
            }
            visit.IsKept = seed % 11 != 0;
            await visit.SayAsync(TalkingProgram.Whole(id), seed % 3 == 0 ? 9 : int.MaxValue);
        });
        await using HostedApp front = await StartAsync(program, options: static its => its.Loops = 3, keeps: keeps);
        int last = 0;
        await Task.WhenAll(Enumerable.Range(0, 6).Select(visitor => Task.Run(() =>
        {
            FastCgiPeer peer = front.Connect();
            for (int i = 0; i < 250; i++)
            {
                int id = Interlocked.Increment(ref last);
                var request = new FastCgiRequest($"/p/x?id={id}");
                if (id % 9 == 0)
                {
                    peer.Send(request.ToBytes());
                    Thread.Sleep(id % 2);
                    peer.Dispose();
                    peer = front.Connect();
                    continue;
                }
                FastCgiResponse response = peer.Exchange(request);
                Assert.True(response.Status == 200 && response.Text == id.ToString(CultureInfo.InvariantCulture), $"{id}: {response}");
            }
            peer.Dispose();
        })));
        Assert.True(SpinWait.SpinUntil(() => program.Connections - program.Closed <= (keeps ? 6 : 0), s_patience), $"{program.Connections - program.Closed} connections are left.");
    }
}
