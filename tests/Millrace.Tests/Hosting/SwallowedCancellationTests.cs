// The framework passes the token of a request on to what writes its result, and swallows the exception of a cancelled one: what there is of the
// response when RequestTimeout has passed must not be taken for all of it.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class SwallowedCancellationTests
{
    private static async IAsyncEnumerable<string> Items(int length, [EnumeratorCancellation] CancellationToken cancellationToken)
    {
        if (length > 0)
        {
            yield return new string('a', length);
        }

        await Task.Delay(Timeout.Infinite, cancellationToken);
        yield return "never";
    }

    // Its source heeds no token: it is the write behind the time limit that is refused.
    private static async IAsyncEnumerable<string> Heedless(HttpContext context)
    {
        await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        yield return "late";
    }

    private static void IsShort(MillraceOptions options) => options.RequestTimeout = TimeSpan.FromMilliseconds(200);

    private static void Map(WebApplication app)
    {
        app.MapGet("/items", static (CancellationToken cancellationToken) => Items(0, cancellationToken));
        app.MapGet("/begun", static (CancellationToken cancellationToken) => Items(100_000, cancellationToken));
        app.MapGet("/heedless", static (HttpContext context) => Heedless(context));
        app.MapGet("/json", static async context =>
        {
            await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await context.Response.WriteAsJsonAsync(new string('b', 1_000));
        });
        app.MapGet("/own", static async context =>
        {
            await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            context.Response.StatusCode = 503;
            await context.Response.WriteAsync("busy");
        });
    }

    [Theory]
    [InlineData("/items")]
    [InlineData("/heedless")]
    [InlineData("/json")]
    public async Task A_result_that_takes_too_long_is_504_although_its_serializer_swallows_that_FastCGI_RequestTimeout(string target)
    {
        await using HostedApp app = await HostedApp.StartAsync(Map, options: IsShort);
        FastCgiResponse answer = app.Get(target);
        Assert.Equal((504, 1U), (answer.Status, answer.End?.AppStatus));
    }

    [Theory]
    [InlineData("/items")]
    [InlineData("/heedless")]
    [InlineData("/json")]
    public async Task A_result_that_takes_too_long_is_504_although_its_serializer_swallows_that_HTTP_RequestTimeout(string target)
    {
        await using UnixApp app = await UnixApp.StartAsync(ApplicationProtocol.Http, Map, static builder => builder.WebHost.UseMillrace(IsShort));
        UnixAnswer answer = await app.Get(target);
        Assert.Equal((504, ""), (answer.Status, answer.Text));
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task An_answer_that_the_application_makes_of_it_is_passed_on_RequestTimeout(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, Map, static builder => builder.WebHost.UseMillrace(IsShort));
        UnixAnswer answer = await app.Get("/own");
        Assert.Equal((503, "busy"), (answer.Status, answer.Text));
    }

    // What was in hand is passed on in an answer that has begun.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_old_middleware_and_new_had_still_in_hand_is_not_going_on_RequestTimeout(bool isOld)
    {
        await using HostedApp app = await HostedApp.StartAsync(app => app.Run(async context =>
        {
            IHttpResponseFeature feature = context.Features.GetRequiredFeature<IHttpResponseFeature>();
            using var inHand = new MemoryStream();
#pragma warning disable CS0618 // what it is about
            Stream own = feature.Body;
            if (isOld)
            {
                feature.Body = inHand;
            }
            else
            {
                context.Response.Body = inHand;
            }

            await context.Response.Body.WriteAsync("half"u8.ToArray());
            await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            feature.Body = own;
#pragma warning restore CS0618
            await own.WriteAsync(inHand.ToArray());
        }), options: IsShort);
        FastCgiResponse answer = app.Get("/");
        Assert.Equal((200, null, true), (answer.Status, answer.End, answer.IsBroken));
    }

    [Fact]
    public async Task A_sequence_that_its_serializer_leaves_off_has_no_end_RequestTimeout()
    {
        await using HostedApp app = await HostedApp.StartAsync(Map, options: static options => options.RequestTimeout = TimeSpan.FromSeconds(3));      // it has begun by then
        FastCgiResponse answer = app.Get("/begun");
        Assert.Equal((200, null, true), (answer.Status, answer.End, answer.IsBroken));
    }
}
