// An application that says of a response, or of a request, that it has failed, and ends as if nothing had: half a response is
// never taken for a whole one, and none leaves without what was to be done before it.

using System.Buffers;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class GivenUpTests
{
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_writer_that_is_completed_with_an_exception_before_the_first_byte_is_a_500(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.Run(static async context =>
        {
            context.Response.BodyWriter.Write("half"u8);
            await context.Response.BodyWriter.CompleteAsync(new InvalidDataException("thrown on purpose"));
        }));
        UnixAnswer answer = await app.Get("/");
        Assert.Equal((500, ""), (answer.Status, answer.Text));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_writer_that_is_completed_with_an_exception_after_the_first_byte_cuts_the_response(bool completes)
    {
        await using HostedApp app = await HostedApp.StartAsync(web => web.Run(async context =>
        {
            await context.Response.WriteAsync("half");
            await context.Response.BodyWriter.CompleteAsync(new InvalidDataException("thrown on purpose"));
            if (completes)
            {
                await context.Response.CompleteAsync();
            }
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal((200, "half", null, true), (response.Status, response.Text, response.End, response.IsBroken));
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_reader_that_is_completed_with_an_exception_makes_its_request_a_500(ApplicationProtocol protocol)
    {
        Exception? refused = null;
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(async context =>
        {
            _ = await context.Request.BodyReader.ReadAsync();
            await context.Request.BodyReader.CompleteAsync(new InvalidDataException("thrown on purpose"));
            refused = await Record.ExceptionAsync(() => context.Response.WriteAsync("as if nothing had happened"));
        }));
        UnixAnswer answer = await app.Post("/", "text"u8.ToArray());
        Assert.Equal((500, ""), (answer.Status, answer.Text));
        Assert.IsType<InvalidOperationException>(refused);
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_callback_of_OnStarting_that_fails_lets_no_response_begin_whatever_its_handler_catches(ApplicationProtocol protocol)
    {
        var refused = new List<Exception?>();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(async context =>
        {
            context.Response.OnStarting(() =>
            {
                context.Response.Headers["X-Frame-Options"] = "DENY";
                return Task.CompletedTask;
            });
            context.Response.OnStarting(static () => throw new InvalidDataException("thrown on purpose"));
            refused.Add(await Record.ExceptionAsync(() => context.Response.WriteAsync("first")));
            context.Response.StatusCode = 400;
            refused.Add(await Record.ExceptionAsync(() => context.Response.WriteAsync("second")));
            refused.Add(await Record.ExceptionAsync(() => context.Response.Body.FlushAsync()));
            refused.Add(await Record.ExceptionAsync(() => context.Response.StartAsync()));
            refused.Add(await Record.ExceptionAsync(() => context.Response.CompleteAsync()));
        }));
        UnixAnswer answer = await app.Get("/");
        Assert.Equal((500, ""), (answer.Status, answer.Text));
        Assert.Equal(5, refused.Count);
        Assert.All(refused, static error => Assert.IsType<InvalidDataException>(error));
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_flush_of_a_response_that_is_complete_is_no_error(ApplicationProtocol protocol)
    {
        var flushed = new TaskCompletionSource<Exception?>();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.Run(async context =>
        {
            var text = new StreamWriter(context.Response.Body);
            await text.WriteAsync("whole");
            await text.FlushAsync();
            await context.Response.CompleteAsync();
            flushed.SetResult(await Record.ExceptionAsync(async () =>
            {
                await text.DisposeAsync();
                await context.Response.Body.FlushAsync();
                _ = await context.Response.BodyWriter.FlushAsync();
            }));
        }));
        UnixAnswer answer = await app.Get("/");
        Assert.Equal((200, "whole"), (answer.Status, answer.Text));
        Assert.Null(await flushed.Task.WaitAsync(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));
    }

    // The framework itself keeps it quiet that a file was not sent to its end because the request was cancelled.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_file_that_is_given_up_half_way_is_never_taken_for_whole_RFC9112_8(bool byRequestTimeout)
    {
        const int Size = 30_000_000;
        using var ended = new SemaphoreSlim(0);
        string file = Path.GetTempFileName();
        await File.WriteAllBytesAsync(file, new byte[Size], TestContext.Current.CancellationToken);
        await using HostedApp app = await HostedApp.StartAsync(
            web => web.Run(async context =>
            {
                using var patience = new CancellationTokenSource(3_000);
                _ = await Record.ExceptionAsync(() => context.Response.SendFileAsync(file, byRequestTimeout ? CancellationToken.None : patience.Token));
                ended.Release();
            }),
            options: options => options.RequestTimeout = TimeSpan.FromMilliseconds(byRequestTimeout ? 3_000 : 0));
        using FastCgiPeer peer = app.Connect();
        peer.Send(new FastCgiRequest("/").ToBytes());
        if (byRequestTimeout)
        {
            await Task.Delay(4_000, TestContext.Current.CancellationToken);     // beyond the time limit; nobody reads
        }
        else
        {
            Assert.True(await ended.WaitAsync(20_000));
        }

        FastCgiResponse response = peer.Receive();
        File.Delete(file);
        Assert.InRange(response.Body.Length, 1, Size - 1);
        Assert.Null(response.End);
    }
}
