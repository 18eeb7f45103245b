// A visitor who takes his time is not the program's silence: neither while his body comes, nor while he takes the answer, nor where he does both.
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Connector;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class SlowVisitorTests
{
    private const int Pieces = 6;
    private const int AnswerSize = 32 << 20;        // more than the kernel keeps for him
    private static readonly TimeSpan s_readTimeout = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_pause = TimeSpan.FromSeconds(0.7);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Who_pauses_in_his_body_for_longer_than_the_program_may_be_silent_is_answered_ReadTimeout(bool onMillrace)
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            long length = await ReadBodyAsync(talk);
            await talk.PrintAsync($"Content-Type: text/plain\r\n\r\n{length}");
            await talk.EndAsync();
        });
        await using PhpApp app = await AppAsync(program, onMillrace);
        using WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        await visitor.WriteHeadAsync("POST", "/x", "Host: x", "Content-Length: 10");
        await visitor.WriteAsync("12345"u8.ToArray());
        await Task.Delay(s_readTimeout * 2.5);
        await visitor.WriteAsync("67890"u8.ToArray());

        WireResponse found = await visitor.ReadResponseAsync("POST");

        Assert.Equal((200, "10"), (found.Status, found.Text));
        Assert.Empty(app.Said.All);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_piece_of_a_body_does_not_begin_the_silence_of_a_program_whose_answer_waits_for_the_visitor_ReadTimeout(bool onMillrace)
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            Task<long> body = ReadBodyAsync(talk);
            await talk.PrintAsync($"Content-Type: text/plain\r\nContent-Length: {AnswerSize}\r\n\r\n");
            for (int sent = 0; sent < AnswerSize; sent += 32 * 1024)
            {
                await talk.PrintAsync(new string('x', 32 * 1024));
            }
            await body;
            await talk.EndAsync();
        });
        await using PhpApp app = await AppAsync(program, onMillrace);
        using WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        await visitor.WriteHeadAsync("POST", "/x", "Host: x", $"Content-Length: {Pieces}");
        for (int i = 0; i < Pieces; i++)
        {
            await visitor.WriteAsync("1"u8.ToArray());
            await Task.Delay(i < Pieces - 2 ? s_pause : s_readTimeout * 2);
        }

        WireHead head = await visitor.ReadHeadAsync("POST");
        var (body, isCut) = await visitor.ReadBodyAsFarAsItComesAsync();

        Assert.Equal((200, AnswerSize, false), (head.Status, body.Length, isCut));
        Assert.Empty(app.Said.All);
    }

    private static async Task<long> ReadBodyAsync(ScriptedProgram.Talk talk)
    {
        for (long length = 0; ;)
        {
            var (type, content) = await talk.ReadAsync();
            Assert.Equal(5, type);
            if (content.Length == 0)
            {
                return length;
            }
            length += content.Length;
        }
    }

    private static Task<PhpApp> AppAsync(ScriptedProgram program, bool onMillrace) =>
        PhpApp.StartAsync(program.Address, onMillrace, "/{**path}", static options => options.ReadTimeout = s_readTimeout,
            build: static builder => builder.Services.Configure<Microsoft.AspNetCore.Server.Kestrel.Core.KestrelServerOptions>(static kestrel => (kestrel.Limits.MinRequestBodyDataRate, kestrel.Limits.MinResponseDataRate) = (null, null)));      // his pace is not what this is about
}
