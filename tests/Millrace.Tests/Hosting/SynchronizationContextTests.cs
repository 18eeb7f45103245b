// A synchronization context that an application leaves on the thread, and that never runs what is posted to it: the server's own
// waits do not go through it. An application may block its thread within it, as programs that were not written for async do.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

namespace Millrace.Tests.Hosting;

public sealed class SynchronizationContextTests
{
    private const int Size = 20_000_000;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Callbacks_of_OnStarting_and_OnCompleted_need_no_context(ApplicationProtocol protocol)
    {
        var completed = new TaskCompletionSource();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(context =>
        {
            context.Response.OnStarting(static async () => await Task.Delay(20).ConfigureAwait(false));
            context.Response.OnCompleted(() =>
            {
                completed.TrySetResult();
                return Task.CompletedTask;
            });
            context.Response.OnCompleted(static async () => await Task.Delay(20).ConfigureAwait(false));
            SynchronizationContext.SetSynchronizationContext(new DeadContext());
            return Task.CompletedTask;
        }));
        Assert.Equal(200, (await app.Get("/")).Status);
        await completed.Task.WaitAsync(s_patience, TestContext.Current.CancellationToken);
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Reading_and_writing_need_no_context(ApplicationProtocol protocol)
    {
        var hung = new List<string>();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(context =>
        {
            SynchronizationContext.SetSynchronizationContext(new DeadContext());
            context.Response.OnStarting(static async () => await Task.Delay(20).ConfigureAwait(false));
            foreach ((string name, Func<Task> act) in Waits(context))
            {
                if (!act().Wait(s_patience))
                {
                    hung.Add(name);
                    break;
                }
            }

            SynchronizationContext.SetSynchronizationContext(null);
            return Task.CompletedTask;
        }));
        UnixAnswer answer = await app.Post("/", new byte[3_000_000]);
        Assert.Empty(hung);
        Assert.Equal(2 * Size, answer.Text.Length);
    }

    private static (string Name, Func<Task> Act)[] Waits(HttpContext context) =>
    [
        ("read", () => context.Request.Body.ReadExactlyAsync(new byte[100_000]).AsTask()),
        ("copy", () => context.Request.Body.CopyToAsync(Stream.Null)),
        ("start", () => context.Response.StartAsync()),
        ("write", () => context.Response.Body.WriteAsync(new byte[Size]).AsTask()),
        ("writer", () => context.Response.BodyWriter.WriteAsync(new byte[Size]).AsTask()),
        ("flush", () => context.Response.Body.FlushAsync()),
        ("complete", () => context.Response.CompleteAsync()),
    ];

    private sealed class DeadContext : SynchronizationContext
    {
        public override void Post(SendOrPostCallback d, object? state)
        {
        }

        public override void Send(SendOrPostCallback d, object? state) => throw new InvalidOperationException("nobody is there");
    }
}
