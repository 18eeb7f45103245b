// What an application may still call when its response is complete: as on Kestrel, which is asked beside.

using System.Collections.Concurrent;
using System.Net.Http;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Logging;

namespace Millrace.Tests.Hosting;

public sealed class AfterCompletionTests
{
    private static readonly (string Name, Func<HttpResponse, Task> Do)[] s_calls =
    [
        ("StartAsync", static response => response.StartAsync()),
        ("StartAsync of the feature", static response => FeatureOf(response).StartAsync()),
        ("StartAsync of the feature, cancelled", static response => FeatureOf(response).StartAsync(new CancellationToken(canceled: true))),
        ("CompleteAsync", static response => response.CompleteAsync()),
        ("CompleteAsync of the feature", static response => FeatureOf(response).CompleteAsync()),
        ("DisableBuffering of the feature", static response =>
        {
            FeatureOf(response).DisableBuffering();
            return Task.CompletedTask;
        }),
        ("BodyWriter.CompleteAsync", static response => response.BodyWriter.CompleteAsync().AsTask()),
        ("BodyWriter.FlushAsync", static response => response.BodyWriter.FlushAsync().AsTask()),
        ("Body.FlushAsync", static response => response.Body.FlushAsync()),
        ("WriteAsync", static response => response.WriteAsync("late")),
        ("OnStarting", static response =>
        {
            response.OnStarting(static () => Task.CompletedTask);
            return Task.CompletedTask;
        }),
        ("StatusCode", static response =>
        {
            response.StatusCode = 404;
            return Task.CompletedTask;
        }),
    ];

    private static IHttpResponseBodyFeature FeatureOf(HttpResponse response) => response.HttpContext.Features.GetRequiredFeature<IHttpResponseBodyFeature>();

    // One call for each request: the first must not change what the next one meets.
    private static void Map(WebApplication app, ConcurrentQueue<string> outcomes) => app.MapGet("/{begun}/{call:int}", async (HttpContext context, string begun, int call) =>
    {
        switch (begun)
        {
            case "started":
                await context.Response.StartAsync();
                break;
            case "written":
                await context.Response.WriteAsync("all");
                break;
        }

        await context.Response.CompleteAsync();
        Exception? thrown = await Record.ExceptionAsync(() => s_calls[call].Do(context.Response));
        outcomes.Enqueue($"{s_calls[call].Name}, {begun}: {thrown?.GetType().Name ?? "nothing"}");
    });

    private static async Task<List<string>> AskAsync(bool kestrel)
    {
        var outcomes = new ConcurrentQueue<string>();
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        if (!kestrel)
        {
            builder.WebHost.UseMillrace();
        }

        await using WebApplication app = builder.Build();
        Map(app, outcomes);
        app.Urls.Add("http://127.0.0.1:0");
        await app.StartAsync();
        using var client = new HttpClient { BaseAddress = new Uri(app.Urls.First()) };
        foreach (string target in Targets)
        {
            Assert.Equal(target.StartsWith("/written", StringComparison.Ordinal) ? "all" : "", await client.GetStringAsync(target));
        }

        await app.StopAsync();
        return [.. outcomes.Order(StringComparer.Ordinal)];      // behind its response a request may be outrun by the next one
    }

    private static IEnumerable<string> Targets =>
        from begun in (string[])["nothing", "started", "written"] from call in Enumerable.Range(0, s_calls.Length) select $"/{begun}/{call}";

    [Fact]
    public async Task What_is_called_behind_a_complete_response_ends_as_on_Kestrel()
    {
        List<string> expected = await AskAsync(kestrel: true);
        Assert.Contains("StartAsync, nothing: nothing", expected);
        Assert.Equal(expected, await AskAsync(kestrel: false));
    }

    [Fact]
    public async Task What_is_called_behind_a_complete_response_ends_over_FastCGI_as_on_Kestrel()
    {
        var outcomes = new ConcurrentQueue<string>();
        await using HostedApp app = await HostedApp.StartAsync(app => Map(app, outcomes));
        foreach (string target in Targets)
        {
            Assert.True(app.Get(target).IsWhole);
        }

        await app.App.StopAsync();
        Assert.Equal(await AskAsync(kestrel: true), outcomes.Order(StringComparer.Ordinal));
    }

    [Theory]
    [InlineData("Body.FlushAsync")]
    [InlineData("BodyWriter.FlushAsync")]
    public async Task A_flush_that_begins_a_response_which_OnStarting_completes_fails_in_nothing(string call)
    {
        var outcome = new TaskCompletionSource<Exception?>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            context.Response.OnStarting(() =>
            {
                _ = context.Response.CompleteAsync();
                return Task.CompletedTask;
            });
            outcome.SetResult(await Record.ExceptionAsync(() => s_calls.First(one => one.Name == call).Do(context.Response)));
        }));
        Assert.True(app.Get("/").IsWhole);
        Assert.Null(await outcome.Task.WaitAsync(TimeSpan.FromSeconds(30), TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task A_start_that_waits_for_OnStarting_while_the_response_is_completed_fails_in_nothing()
    {
        var starting = new TaskCompletionSource();
        var outcome = new TaskCompletionSource<Exception?>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            context.Response.OnStarting(() => starting.Task);
            Task start = FeatureOf(context.Response).StartAsync();
            Assert.False(start.IsCompleted);
            await context.Response.CompleteAsync();
            starting.SetResult();
            outcome.SetResult(await Record.ExceptionAsync(() => start));
        }));
        Assert.True(app.Get("/").IsWhole);
        Assert.Null(await outcome.Task.WaitAsync(TimeSpan.FromSeconds(30), TestContext.Current.CancellationToken));
    }
}
