// A program that has been broken into, is broken, slow or overrun: what it says stays within limits, the visitor learns nothing of why, and the log does.
using System.Text;
using Millrace.Connector;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class HostileProgramTests
{
    private static Task<PhpApp> AppAsync(ScriptedProgram program, Action<FastCgiProgramOptions>? configure = null, bool onMillrace = false) =>
        PhpApp.StartAsync(program.Address, onMillrace, "/{**path}", configure ?? (static _ => { }));

    private static ScriptedProgram Saying(string head, bool ends = true) => new(async talk =>
    {
        await talk.ReadHeadAsync();
        await talk.PrintAsync(head);
        if (ends)
        {
            await talk.EndAsync();
        }
    });

    [Theory]
    [InlineData("X: a\rSet-Cookie: evil=1\r\n\r\n")]
    [InlineData("X: a\r\r\nSet-Cookie: evil=1\r\n\r\n")]
    [InlineData("X: a\0b\r\n\r\n")]
    [InlineData("X: a\u0001b\r\n\r\n")]
    [InlineData("X: a\r\n Set-Cookie: evil=1\r\n\r\n")]
    [InlineData("X y: a\r\n\r\n")]
    [InlineData(": a\r\n\r\n")]
    [InlineData("no field\r\n\r\n")]
    [InlineData("Status: 99\r\n\r\n")]
    [InlineData("Status: 101\r\n\r\n")]
    [InlineData("Status: 200\r\nStatus: 404\r\n\r\n")]
    [InlineData("Status: 200OK\r\n\r\n")]
    [InlineData("Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")]
    [InlineData("Content-Length: -1\r\n\r\n")]
    [InlineData("Status: 204\r\nContent-Length: 3\r\n\r\n")]
    [InlineData("Status: 205\r\nContent-Length: 3\r\n\r\nabc")]
    [InlineData("Content-Type: text/plain\r\n")]
    public async Task A_head_that_is_none_is_502_and_no_part_of_it_reaches_the_visitor(string head)
    {
        foreach (bool onMillrace in (bool[])[false, true])
        {
            await using ScriptedProgram program = Saying(head);
            await using PhpApp app = await AppAsync(program, onMillrace: onMillrace);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
            Assert.Equal((502, ""), (found.Status, found.Text));
            Assert.DoesNotContain(found.Head.Headers, static field => field.Key is "X" or "Set-Cookie");
            Assert.StartsWith("1 GET /x: ", Assert.Single(app.Said.All), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task What_a_script_says_of_the_connection_is_not_passed_on()
    {
        await using ScriptedProgram program = Saying("Content-Type: text/plain\nConnection: upgrade\nTransfer-Encoding: chunked\nUpgrade: h2c\nTrailer: X\nX-Accel-Buffering: no\nKept: yes\n\nbody");
        await using PhpApp app = await AppAsync(program);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
        Assert.Equal((200, "body", "yes"), (found.Status, found.Text, found.Header("Kept")));
        Assert.DoesNotContain(found.Head.Headers, static field => field.Key is "Upgrade" or "Trailer" or "X-Accel-Buffering" || field.Value == "upgrade");
    }

    // ---- limits, on both sides ----

    [Theory]
    [InlineData(1024, 200)]
    [InlineData(1025, 502)]
    public async Task A_head_has_so_many_bytes(int length, int status)
    {
        string head = "X: " + new string('a', length - "X: \r\n\r\n".Length) + "\r\n\r\n";
        await using ScriptedProgram program = Saying(head);
        await using PhpApp app = await AppAsync(program, static options => options.HeadBytesMax = 1024);
        Assert.Equal(status, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
    }

    [Theory]
    [InlineData(20, 200)]
    [InlineData(21, 502)]
    public async Task And_so_many_lines(int lines, int status)
    {
        await using ScriptedProgram program = Saying(string.Concat(Enumerable.Range(0, lines).Select(static i => $"X{i}: a\n")) + "\n");
        await using PhpApp app = await AppAsync(program, static options => options.HeadFieldsMax = 20);
        Assert.Equal(status, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
    }

    [Theory]
    [InlineData(1, "HeadFieldsMax")]
    [InlineData(1_000, "HeadBytesMax")]
    public async Task A_head_without_end_is_broken_off(int lineLength, string limit)
    {
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            while (true)
            {
                await talk.PrintAsync($"X: {new string('e', lineLength)}\r\n");
            }
        });
        await using PhpApp app = await AppAsync(program);
        Assert.Equal(502, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
        Assert.Contains(limit, Assert.Single(app.Said.All), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_flood_of_STDERR_is_cut_and_counted_and_no_line_of_it_stands_alone()
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            for (int i = 0; i < 500; i++)
            {
                await talk.WriteAsync(7, Encoding.Latin1.GetBytes(new string('e', 999) + "\n"));
            }
            await talk.PrintAsync("Content-Type: text/plain\r\n\r\nfine");
            await talk.EndAsync();
        });
        await using PhpApp app = await AppAsync(program, static options => options.ErrorBytesMax = 2_000);
        Assert.Equal("fine", (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Text);
        string line = Assert.Single(app.Said.All);
        Assert.EndsWith("... and 498000 bytes more (ErrorBytesMax)", line, StringComparison.Ordinal);
        Assert.True(line.Length < 2_300);
        Assert.DoesNotContain('\n', line);
    }

    [Fact]
    public async Task A_program_that_says_nothing_is_504_when_its_time_is_over()
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            await Task.Delay(Timeout.Infinite, talk.Ct);
        });
        await using PhpApp app = await AppAsync(program, static options => options.ReadTimeout = TimeSpan.FromMilliseconds(300));
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
        Assert.Equal((504, ""), (found.Status, found.Text));
        Assert.Contains("ReadTimeout", Assert.Single(app.Said.All), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_program_that_says_something_now_and_then_has_all_the_time()
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            await talk.PrintAsync("Content-Type: text/plain\r\n\r\n");
            for (int i = 0; i < 25; i++)
            {
                await Task.Delay(200, talk.Ct);
                await talk.PrintAsync(".");
            }
            await talk.EndAsync();
        });
        await using PhpApp app = await AppAsync(program, static options => options.ReadTimeout = TimeSpan.FromSeconds(4.5));
        Assert.Equal(new string('.', 25), (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Text);
    }

    [Fact]
    public async Task Where_all_connections_are_in_use_the_visitor_has_503()
    {
        var entered = new TaskCompletionSource();
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            entered.TrySetResult();
            await Task.Delay(Timeout.Infinite, talk.Ct);
        });
        await using PhpApp app = await AppAsync(program, static options =>
        {
            options.ConnectionsMax = 1;
            options.ConnectTimeout = TimeSpan.FromSeconds(2);
        });
        using WireClient first = await WireClient.ConnectAsync(app.EndPoint);
        await first.WriteHeadAsync("GET", "/first", "Host: x");
        await entered.Task.WaitAsync(TimeSpan.FromSeconds(30));
        Assert.Equal(503, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
    }

    [Theory]
    [InlineData("Content-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc", true)]
    [InlineData("Content-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc", false)]
    [InlineData("Content-Type: text/plain\r\n\r\nabc", false)]
    public async Task An_answer_that_is_not_whole_does_not_pass_for_whole(string said, bool ends)
    {
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            await talk.PrintAsync(said);
            await Task.Delay(500, talk.Ct);     // the head is on its way by now, or it is 502
            if (ends)
            {
                await talk.EndAsync();
            }
        });
        await using PhpApp app = await AppAsync(program);
        try
        {
            Assert.Equal(502, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
        }
        catch (Exception error) when (error is CutResponseException or System.Net.Sockets.SocketException or IOException)
        {
            // What the visitor can see.
        }
        Assert.Single(app.Said.All);
    }

    // A browser could take text that has lost its type for what it looks like.
    [Theory]
    [InlineData("Content-Length: 100\r\n", 0, 502)]
    [InlineData("", 2, 503)]        // FCGI_OVERLOADED
    [InlineData("", 99, 502)]
    public async Task Nothing_of_an_answer_that_has_failed_before_it_began_is_in_the_one_in_its_place(string length, byte end, int status)
    {
        foreach (bool onMillrace in (bool[])[false, true])
        {
            await using var program = new ScriptedProgram(async talk =>
            {
                await talk.ReadHeadAsync();
                await talk.WriteAtOnceAsync((6, [.. Encoding.ASCII.GetBytes($"Content-Type: text/plain\r\n{length}\r\n<script>alert(1)</script>")]), (3, [0, 0, 0, 0, end, 0, 0, 0]));
            });
            await using PhpApp app = await AppAsync(program, onMillrace: onMillrace);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
            Assert.Equal((status, ""), (found.Status, found.Text));
        }
    }

    // ---- streams ----

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_visitor_that_leaves_takes_the_program_with_it(bool onMillrace)
    {
        var told = new TaskCompletionSource<byte>(TaskCreationOptions.RunContinuationsAsynchronously);
        var entered = new TaskCompletionSource();
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            Assert.Equal((byte)5, (await talk.ReadAsync()).Type);
            entered.SetResult();
            told.SetResult((await talk.ReadAsync()).Type);
        });
        await using PhpApp app = await AppAsync(program, onMillrace: onMillrace);
        using (WireClient visitor = await WireClient.ConnectAsync(app.EndPoint))
        {
            await visitor.WriteHeadAsync("GET", "/x", "Host: x");
            await entered.Task.WaitAsync(TimeSpan.FromSeconds(30));
        }
        Assert.Equal((byte)2, await told.Task.WaitAsync(TimeSpan.FromSeconds(60)));     // ABORT_REQUEST
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Bodies_go_both_ways_at_once_as_they_come(bool onMillrace)
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            await talk.PrintAsync("Content-Type: text/plain\r\n\r\n");
            while (await talk.ReadAsync() is (5, { Length: > 0 } content))
            {
                await talk.WriteAsync(6, content);
            }
            await talk.EndAsync();
        });
        await using PhpApp app = await AppAsync(program, onMillrace: onMillrace);
        using WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        await visitor.WriteHeadAsync("POST", "/x", "Host: x", "Content-Length: 10");
        await visitor.WriteAsync("first"u8.ToArray());
        WireHead head = await visitor.ReadHeadAsync("POST");
        Assert.Equal(200, head.Status);
        Assert.Equal("first", await visitor.ReadBodyTextAsync(5));      // the second half has not been sent
        await visitor.WriteAsync("other"u8.ToArray());
        Assert.Equal("other", await visitor.ReadBodyTextAsync(5));
    }

    // ---- options ----

    [Theory]
    [InlineData("/{**path}", "nowhere", "is no address")]
    [InlineData("/{**path}", "unix:relative", "is no address")]
    [InlineData("/{**path}", "127.0.0.1", "is no address")]
    [InlineData("/blog", "127.0.0.1:9000", "no parameter that takes all the rest")]
    public async Task What_cannot_be_mapped_is_refused_at_once(string pattern, string address, string why)
    {
        var error = await Assert.ThrowsAsync<ArgumentException>(() => PhpApp.StartAsync(address, false, pattern, static _ => { }));
        Assert.Contains(why, error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Options_have_ranges()
    {
        void Refused(Action<FastCgiProgramOptions> good, Action<FastCgiProgramOptions> bad, string name)
        {
            var options = new FastCgiProgramOptions();
            good(options);
            Assert.Empty(options.Validate());
            bad(options);
            Assert.Contains(name, Assert.Single(options.Validate()), StringComparison.Ordinal);
        }
        Refused(static o => o.Root = "/tmp", static o => o.Root = "tmp", "Root");
        Refused(static o => o.Root = "/tmp", static o => o.Root = "/no/such/folder", "Root");
        Refused(static o => o.Suffixes.Add(".phtml"), static o => o.Suffixes.Add("php"), "Suffixes");
        Refused(static _ => { }, static o => o.Suffixes.Clear(), "Suffixes");
        Refused(static o => o.SendFileRoots["/a/"] = "/tmp", static o => o.SendFileRoots["/b"] = "/tmp", "SendFileRoots");
        Refused(static o => o.ConnectionsMax = 1, static o => o.ConnectionsMax = 0, nameof(FastCgiProgramOptions.ConnectionsMax));
        Refused(static o => o.HeadBytesMax = 256, static o => o.HeadBytesMax = 255, nameof(FastCgiProgramOptions.HeadBytesMax));
        Refused(static o => o.HeadFieldsMax = 10_000, static o => o.HeadFieldsMax = 10_001, nameof(FastCgiProgramOptions.HeadFieldsMax));
        Refused(static o => o.ErrorBytesMax = 0, static o => o.ErrorBytesMax = -1, nameof(FastCgiProgramOptions.ErrorBytesMax));
        Refused(static o => o.UnknownLengthMax = 0, static o => o.UnknownLengthMax = -1, nameof(FastCgiProgramOptions.UnknownLengthMax));
        Refused(static o => o.AnswerBufferMax = 1 << 30, static o => o.AnswerBufferMax = -1, nameof(FastCgiProgramOptions.AnswerBufferMax));
        Refused(static o => o.AnswerBuffersMax = 0, static o => o.AnswerBuffersMax = (1L << 40) + 1, nameof(FastCgiProgramOptions.AnswerBuffersMax));
        Refused(static o => o.AnswerFilesMax = 0, static o => o.AnswerFilesMax = (1L << 40) + 1, nameof(FastCgiProgramOptions.AnswerFilesMax));
        Refused(static o => o.IdleTimeout = TimeSpan.FromSeconds(1), static o => o.IdleTimeout = TimeSpan.Zero, nameof(FastCgiProgramOptions.IdleTimeout));
        Refused(static o => o.ConnectTimeout = TimeSpan.FromHours(1), static o => o.ConnectTimeout = TimeSpan.FromHours(2), nameof(FastCgiProgramOptions.ConnectTimeout));
        Refused(static o => o.ReadTimeout = TimeSpan.FromDays(1), static o => o.ReadTimeout = TimeSpan.FromDays(2), nameof(FastCgiProgramOptions.ReadTimeout));
    }
}
