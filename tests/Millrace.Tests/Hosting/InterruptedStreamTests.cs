// Thread.Interrupt for a thread that waits in a synchronous read or write of a body. The array is its caller's again from then on, and perhaps already
// another request's: whatever comes does not land in it, and whatever leaves is what was in it.

using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

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

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task What_leaves_behind_an_interrupted_write_is_what_was_written(ApplicationProtocol protocol)
    {
        var interrupted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using UnixApp app = await StartAsync(protocol, context =>
        {
            byte[] array = new byte[Long];
            Array.Fill(array, (byte)'A');
            Interrupt(() => context.Response.Body.Write(array, 0, array.Length));
            Array.Fill(array, (byte)'X');
            interrupted.SetResult();
            context.Response.Body.Flush();      // behind it
        });
        Assert.Equal(new string('A', Long), (await app.GetLate("/", interrupted.Task)).Text);
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
