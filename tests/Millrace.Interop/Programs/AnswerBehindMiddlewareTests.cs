// Middleware around a program that changes, keeps or ends its answer: nothing of an answer is lost, and what is not whole passes for whole with nobody.
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Timeouts;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Connector;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class AnswerBehindMiddlewareTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(10);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task All_of_an_answer_is_there_where_another_body_has_been_put_in_the_place_of_the_servers(bool onMillrace)
    {
        int length = 0;
        await using var program = new ScriptedProgram(talk => SayAsync(talk, "Content-Type: text/plain\r\n\r\n", length));
        await using PhpApp app = await StartAsync(program, onMillrace, before: static app => app.Use(static async (context, next) =>
        {
            Stream own = context.Response.Body;
            using var kept = new MemoryStream();
            context.Response.Body = kept;
            await next(context);
            context.Response.Body = own;
            kept.Position = 0;
            await kept.CopyToAsync(own);
        }));
        foreach (int its in (int[])[0, 1, 5, 16_300, 20_000, 40_000, 100_000])
        {
            length = its;
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
            Assert.Equal((200, its), (found.Status, found.Body.Length));
        }
    }

    [Theory]
    [InlineData(false, "")]
    [InlineData(true, "")]
    [InlineData(false, "Content-Length: 5\r\n")]
    [InlineData(true, "Content-Length: 5\r\n")]
    public async Task All_of_an_answer_is_kept_by_the_output_cache(bool onMillrace, string field)
    {
        int asked = 0;
        await using var program = new ScriptedProgram(talk =>
        {
            asked++;
            return SayAsync(talk, $"Content-Type: text/plain\r\n{field}\r\n", 5);
        });
        await using PhpApp app = await StartCachedAsync(program, onMillrace);

        // One connection for all: who leaves when he has all of his answer, and the cache has not, ends it for whoever waits for that.
        using WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        for (int i = 0; i < 3; i++)
        {
            WireResponse found = await visitor.GetAsync("/x", "Host: site.example");
            Assert.Equal((200, "bbbbb"), (found.Status, found.Text));
        }
        Assert.Equal(1, asked);
    }

    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public async Task An_answer_that_breaks_off_or_whose_visitor_leaves_is_kept_for_nobody(bool onMillrace, bool visitorLeaves)
    {
        int asked = 0;
        var half = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            await talk.PrintAsync("Content-Type: text/plain\r\n\r\nhalf");
            if (++asked == 1)
            {
                half.SetResult();
                await Task.Delay(visitorLeaves ? s_patience : TimeSpan.FromSeconds(1), talk.Ct);
                return;
            }
            await talk.PrintAsync(" and half");
            await talk.EndAsync();
        });
        await using PhpApp app = await StartCachedAsync(program, onMillrace);
        using (WireClient visitor = await AskAsync(app))
        {
            await half.Task.WaitAsync(s_patience);
            await Task.Delay(300);
            if (!visitorLeaves)
            {
                Assert.False((await ReadAsync(visitor)).IsWhole);
            }
        }
        await Task.Delay(500);
        for (int i = 0; i < 2; i++)
        {
            Assert.Equal("half and half", (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Text);
        }
        Assert.Equal(2, asked);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_the_time_limit_of_the_application_ends_does_not_pass_for_whole(bool onMillrace)
    {
        bool says = true;
        await using ScriptedProgram program = Hanging(() => says);
        await using PhpApp app = await StartAsync(
            program,
            onMillrace,
            static app => app.UseRequestTimeouts(),
            static services => services.AddRequestTimeouts(static options => options.DefaultPolicy = new RequestTimeoutPolicy { Timeout = TimeSpan.FromSeconds(2) }));
        using (WireClient visitor = await AskAsync(app))
        {
            Assert.Equal((200, "half", false), await ReadAsync(visitor));
        }
        says = false;
        Assert.Equal(504, (await PhpSite.AskAsync(app.EndPoint, "GET", "/x")).Status);
    }

    // RFC 9112 §8: what ends without the last chunk is not whole.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Whoever_has_finished_sending_before_he_has_his_answer_takes_no_half_for_whole(bool onMillrace)
    {
        bool says = true;
        await using ScriptedProgram program = Hanging(() => says);
        await using PhpApp app = await StartAsync(program, onMillrace);
        foreach (string method in (string[])["GET", "POST"])
        {
            foreach (bool its in (bool[])[true, false])
            {
                says = its;
                using WireClient visitor = await AskAsync(app, method);
                await Task.Delay(300);
                visitor.FinishSending();
                var found = await ReadAsync(visitor);
                Assert.False(found is (200, _, true), found.ToString());
            }
        }
    }

    // A script that says no Content-Type has a body all the same.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_page_of_a_script_that_fails_is_its_own(bool onMillrace)
    {
        await using var program = new ScriptedProgram(static talk => SayAsync(talk, "Status: 404 Not Found\r\n\r\n", 5));
        await using PhpApp app = await StartAsync(program, onMillrace, static app => app.UseStatusCodePages());
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
        Assert.Equal((404, "bbbbb"), (found.Status, found.Text));
    }

    private static async Task SayAsync(ScriptedProgram.Talk talk, string head, int length)
    {
        await talk.ReadHeadAsync();
        await talk.PrintAsync(head);
        for (int sent = 0; sent < length; sent += 10_000)
        {
            await talk.PrintAsync(new string('b', Math.Min(10_000, length - sent)));
        }
        await talk.EndAsync();
    }

    private static Task<PhpApp> StartCachedAsync(ScriptedProgram program, bool onMillrace) => StartAsync(
        program,
        onMillrace,
        static app => app.UseOutputCache(),
        static services => services.AddOutputCache(static options => options.AddBasePolicy(static policy => policy.Cache().Expire(TimeSpan.FromMinutes(1)))));

    private static Task<PhpApp> StartAsync(ScriptedProgram program, bool onMillrace, Action<WebApplication>? before = null, Action<IServiceCollection>? services = null) =>
        PhpApp.StartAsync(program.Address, onMillrace, "/{**path}", static _ => { }, before: before, build: builder => services?.Invoke(builder.Services));

    // A program that says half of its answer, or nothing, and no more.
    private static ScriptedProgram Hanging(Func<bool> says) => new(async talk =>
    {
        await talk.ReadHeadAsync();
        await (says() ? talk.PrintAsync("Content-Type: text/plain\r\n\r\nhalf") : Task.CompletedTask);
        await Task.Delay(s_patience, talk.Ct);
    });

    // A POST sends half of its body.
    private static async Task<WireClient> AskAsync(PhpApp app, string method = "GET")
    {
        WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        await visitor.WriteHeadAsync(method, "/x", method == "POST" ? ["Content-Length: 10"] : []);
        await visitor.WriteAsync(method == "POST" ? "hello"u8.ToArray() : default);
        return visitor;
    }

    // What a visitor has at the end, and whether he takes it for all there is. 0: there is no head.
    private static async Task<(int Status, string Text, bool IsWhole)> ReadAsync(WireClient visitor)
    {
        try
        {
            int status = (await visitor.ReadHeadAsync()).Status;
            var (body, isCut) = await visitor.ReadBodyAsFarAsItComesAsync();
            return (status, Encoding.ASCII.GetString(body), !isCut);
        }
        catch (CutResponseException)
        {
            return (0, "", false);
        }
    }
}
