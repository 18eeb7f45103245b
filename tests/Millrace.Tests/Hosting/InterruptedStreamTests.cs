// Thread.Interrupt for a thread that waits in a synchronous read or write of a body. The array is its caller's again from then on, and perhaps already
// another request's: whatever comes does not land in it, and whatever leaves is what was in it.

using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class InterruptedStreamTests
{
    private const int Long = 8_000_000;     // more than sockets and buffers take

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    [System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA2022", Justification = "Nothing is read.")]
    public async Task What_comes_behind_an_interrupted_read_is_the_next_read_s(ApplicationProtocol protocol)
    {
        var interrupted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using UnixApp app = await StartAsync(protocol, context =>
        {
            byte[] array = new byte[10];
            Interrupt(() => context.Request.Body.Read(array, 0, array.Length));
            Array.Fill(array, (byte)'Z');
            interrupted.SetResult();
            string body = new StreamReader(context.Request.Body).ReadToEnd();
            context.Response.Body.Write([.. array, .. Encoding.ASCII.GetBytes(body)]);
        });
        Assert.Equal("ZZZZZZZZZZ0123456789", (await app.PostLate("/", "0123456789"u8.ToArray(), interrupted.Task)).Text);
    }

    // The framework's own stream of a writer lends a pooled array to it.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi, false)]
    [InlineData(ApplicationProtocol.FastCgi, true)]
    [InlineData(ApplicationProtocol.Http, false)]
    [InlineData(ApplicationProtocol.Http, true)]
    public async Task What_leaves_behind_an_interrupted_write_is_what_was_written(ApplicationProtocol protocol, bool isOfWriter)
    {
        var interrupted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using UnixApp app = await StartAsync(protocol, context =>
        {
            byte[] array = new byte[Long];
            Array.Fill(array, (byte)'A');
            Stream stream = isOfWriter ? context.Response.BodyWriter.AsStream() : context.Response.Body;
            stream.Write("begun "u8);
            Interrupt(() => stream.Write(array, 0, array.Length));
            Array.Fill(array, (byte)'X');
            interrupted.SetResult();
            stream.Flush();      // behind it
        });
        Assert.Equal("begun " + new string('A', Long), (await app.GetLate("/", interrupted.Task)).Text);
    }

    // Who has looked at the first bytes of a body without taking them, and then waits for more.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_body_that_was_looked_at_is_read_whole_however_late_the_rest_comes(ApplicationProtocol protocol)
    {
        var looked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(async context =>
        {
            context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = true;
            System.IO.Pipelines.ReadResult first = await context.Request.BodyReader.ReadAtLeastAsync(3);
            context.Request.BodyReader.AdvanceTo(first.Buffer.Start, first.Buffer.End);
            looked.SetResult();
            byte[] array = new byte[2];
            int count = context.Request.Body.Read(array, 0, 2);
            string rest = await new StreamReader(context.Request.Body).ReadToEndAsync();
            await context.Response.WriteAsync(Encoding.ASCII.GetString(array, 0, count) + " " + rest);
        }));
        Assert.Equal("01 23456789", (await app.PostLate("/", "0123456789"u8.ToArray(), looked.Task, ahead: 3)).Text);
    }

    [System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA2022", Justification = "Nothing is read.")]
    [Fact]
    public async Task A_stream_that_is_asked_for_anew_goes_on_where_another_was_interrupted()
    {
        var interrupted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var folder = new SocketFolder();
        await using MillraceServer server = await MillraceServer.StartAsync(
            folder.NewAddress(),
            (request, response) =>
            {
                Interrupt(() => request.Body.Read(new byte[10], 0, 10));
                interrupted.SetResult();
                response.WriteText(new StreamReader(request.Body).ReadToEnd());
            },
            new MillraceOptions { AllowSynchronousIO = true });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        byte[] bytes = new FastCgiRequest("/", "POST") { Body = "0123456789"u8.ToArray() }.ToBytes();
        int head = new FastCgiRequest("/", "POST") { Body = "0123456789"u8.ToArray() }.Head().Length;
        peer.Send(bytes.AsSpan(0, head));
        await interrupted.Task;
        peer.Send(bytes.AsSpan(head));
        Assert.Equal("0123456789", peer.Receive().Text);
    }

    private static Task<UnixApp> StartAsync(ApplicationProtocol protocol, Action<HttpContext> handle) => UnixApp.StartAsync(protocol, web => web.Run(context =>
    {
        context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = true;
        handle(context);
        return Task.CompletedTask;
    }));

    private static void Interrupt(Action wait)
    {
        Thread waiting = Thread.CurrentThread;
        var watchdog = new Thread(() =>
        {
            Assert.True(SpinWait.SpinUntil(() => (waiting.ThreadState & ThreadState.WaitSleepJoin) != 0, TimeSpan.FromSeconds(20)));
            waiting.Interrupt();
        });
        watchdog.Start();
        Assert.Throws<ThreadInterruptedException>(wait);
        watchdog.Join();
    }
}
