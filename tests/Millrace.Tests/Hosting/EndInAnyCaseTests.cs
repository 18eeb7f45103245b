// What has to come behind a request comes, whatever has gone wrong before: callbacks of OnCompleted, and with them what the request made for itself.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Exchanges;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class EndInAnyCaseTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    [Fact]
    public async Task Callbacks_of_a_request_whose_context_could_not_be_made_are_called()
    {
        using var completed = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(
            static web => web.MapGet("/{path}", static (string path) => path),
            builder => builder.Services.AddSingleton<IHttpContextFactory>(services => new FailingFactory(services, completed)));
        using FastCgiPeer peer = app.Connect();
        FastCgiResponse failed = peer.Exchange(new FastCgiRequest("/fails"));
        Assert.Equal((500, true), (failed.Status, failed.IsWhole));
        Assert.True(await completed.WaitAsync(s_patience));
        Assert.Equal("good", peer.Exchange(new FastCgiRequest("/good")).Text);
    }

    private sealed class FailingFactory(IServiceProvider services, SemaphoreSlim completed) : IHttpContextFactory
    {
        private readonly DefaultHttpContextFactory _usual = new(services);

        public HttpContext Create(IFeatureCollection featureCollection)
        {
            if (featureCollection.GetRequiredFeature<IHttpRequestFeature>().Path == "/fails")
            {
                featureCollection.GetRequiredFeature<IHttpResponseFeature>().OnCompleted(_ => Task.FromResult(completed.Release()), null!);
                throw new InvalidOperationException("There is no context.");
            }

            return _usual.Create(featureCollection);
        }

        public void Dispose(HttpContext httpContext) => _usual.Dispose(httpContext);
    }

    // Two threads that remove and add fields at once leave entries without a name.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Callbacks_of_a_request_that_has_spoilt_its_fields_and_is_late_are_called(bool leavesItsTurn)
    {
        using var completed = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(
            web => web.Run(async context =>
            {
                context.Response.OnCompleted(() =>
                {
                    completed.Release();
                    return Task.CompletedTask;
                });
                context.Response.StatusCode = 404;
                CancellationToken ended = context.RequestAborted;
                if (leavesItsTurn)
                {
                    await Task.Yield();
                }

                Assert.True(ended.WaitHandle.WaitOne(s_patience));
                object table = typeof(HeaderView).GetField("<table>P", System.Reflection.BindingFlags.NonPublic | System.Reflection.BindingFlags.Instance)!.GetValue(context.Response.Headers)!;
                Count((HeaderTable)table) = 3;
            }),
            options: static options => options.RequestTimeout = TimeSpan.FromMilliseconds(300));
        Assert.NotEqual(200, app.Get("/").Status);
        Assert.True(await completed.WaitAsync(s_patience));
    }

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field, Name = "_count")]
    private static extern ref int Count(HeaderTable table);
}
