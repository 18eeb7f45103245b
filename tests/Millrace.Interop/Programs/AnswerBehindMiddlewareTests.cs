// Middleware around a program that changes, keeps or ends its answer: nothing of an answer is lost, and what is not whole passes for whole with nobody.
using System.Net.Sockets;
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
        for (int i = 0; i < 3; i++)
        {
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/x");
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
                await Task.Delay(visitorLeaves ? s_patience : TimeSpan.FromMilliseconds(200), talk.Ct);
                return;
            }
            await talk.PrintAsync(" and half");
            await talk.EndAsync();
        });
        await using PhpApp app = await StartCachedAsync(program, onMillrace);
        using (Socket visitor = await ConnectAsync(app, "GET /x HTTP/1.1\r\nHost: site.example\r\n\r\n"))
        {
            await half.Task.WaitAsync(s_patience);
            await Task.Delay(300);
            if (!visitorLeaves)
            {
                Assert.False(IsWhole(await ReadToEndAsync(visitor)));
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
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            await (says ? talk.PrintAsync("Content-Type: text/plain\r\n\r\nhalf") : Task.CompletedTask);
            await Task.Delay(s_patience, talk.Ct);
        });
        await using PhpApp app = await StartAsync(
            program,
            onMillrace,
            static app => app.UseRequestTimeouts(),
            static services => services.AddRequestTimeouts(static options => options.DefaultPolicy = new RequestTimeoutPolicy { Timeout = TimeSpan.FromMilliseconds(400) }));
        using (Socket visitor = await ConnectAsync(app, "GET /x HTTP/1.1\r\nHost: site.example\r\n\r\n"))
        {
            string found = await ReadToEndAsync(visitor);
            Assert.Contains("half", found, StringComparison.Ordinal);
            Assert.False(IsWhole(found));
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
        await using var program = new ScriptedProgram(async talk =>
        {
            await talk.ReadHeadAsync();
            await (says ? talk.PrintAsync("Content-Type: text/plain\r\n\r\nhalf") : Task.CompletedTask);
            await Task.Delay(s_patience, talk.Ct);
        });
        await using PhpApp app = await StartAsync(program, onMillrace);
        foreach (string request in (string[])["GET /x HTTP/1.1\r\nHost: a\r\n\r\n", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"])
        {
            foreach (bool its in (bool[])[true, false])
            {
                says = its;
                using Socket visitor = await ConnectAsync(app, request);
                await Task.Delay(300);
                visitor.Shutdown(SocketShutdown.Send);
                string found = await ReadToEndAsync(visitor);
                Assert.False(found.StartsWith("HTTP/1.1 200", StringComparison.Ordinal) && IsWhole(found), found);
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

    private static async Task<Socket> ConnectAsync(PhpApp app, string request)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(app.EndPoint);
        await socket.SendAsync(Encoding.ASCII.GetBytes(request));
        return socket;
    }

    private static async Task<string> ReadToEndAsync(Socket socket)
    {
        using var limit = new CancellationTokenSource(s_patience);
        var found = new StringBuilder();
        byte[] room = new byte[4096];
        try
        {
            for (int count; (count = await socket.ReceiveAsync(room, limit.Token)) > 0;)
            {
                found.Append(Encoding.ASCII.GetString(room, 0, count));
            }
        }
        catch (SocketException)
        {
            // A reset is an end that nobody takes for another.
        }
        return found.ToString();
    }

    // These answers are chunked, or have a length, or the end of the connection is theirs.
    private static bool IsWhole(string answer)
    {
        int body = answer.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4;
        string head = answer[..body];
        return head.Contains("chunked", StringComparison.Ordinal) ? answer.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal)
            : !head.Contains("Content-Length: ", StringComparison.Ordinal) || answer.Length - body == int.Parse(head.Split("Content-Length: ")[1].Split('\r')[0], System.Globalization.CultureInfo.InvariantCulture);
    }
}
