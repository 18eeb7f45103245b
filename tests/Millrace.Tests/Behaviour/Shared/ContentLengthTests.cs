// A Content-Length that is set when bytes have been written already: it may not say fewer than there are, or the rest would be
// read as the next response.

using Millrace.Exchanges;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class ContentLengthTests(Way way) : SharedTests(way)
{
    [Fact]
    public void Hostile_67_A_Content_Length_below_what_has_been_written_is_an_error_RFC9112_6_3() => Answers(
        static call =>
        {
            call.WriteText("four");
            call.Length = 3;
        },
        static (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((500, "0", 0), (answer.Status, answer.Field("Content-Length"), answer.Body.Length));
            bench.StillServes(caller);
        });

    [Fact]
    public void Hostile_67_A_Content_Length_below_what_has_been_written_refuses_the_flush_RFC9112_6_3() => Run(
        static async call =>
        {
            call.WriteText("four");
            call.Length = 3;
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await call.FlushAsync());
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await call.WriteAsync("more"u8.ToArray()));
            call.Length = 4;
            await call.FlushAsync();
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Answer answer = bench.Get(caller, "/");
            Assert.Equal((200, "4", "four"), (answer.Status, answer.Field("Content-Length"), answer.BodyText));
            bench.StillServes(caller);
        });

    // As on Kestrel. More than is sent at once.
    [Fact]
    public void Of_a_write_beyond_Content_Length_nothing_is_written_RFC9112_6_3() => Run(
        static async call =>
        {
            call.Length = 100_000;
            await call.WriteAsync(new byte[30_000]);
            await call.FlushAsync();
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await call.WriteAsync(new byte[70_001]));
            await call.WriteAsync(new byte[70_000]);
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Answer answer = bench.Get(caller, "/");
            Assert.Equal((200, "100000", 100_000), (answer.Status, answer.Field("Content-Length"), answer.Body.Length));
            bench.StillServes(caller);
        });

    [Fact]
    public void A_Content_Length_that_fits_what_has_been_written_may_be_set_late() => Answers(
        static call =>
        {
            call.WriteText("four");
            call.Length = 4;
        },
        static (_, caller) => Assert.Equal("four", Assert.Single(caller.Answers).BodyText));

    // Another thread of the application announces it when the server has looked, and before it writes the head: what is missing would be taken from the next answer.
    [Theory]
    [InlineData("", 5)]
    [InlineData("four", 9)]
    public void A_whole_body_is_no_longer_than_it_is_whatever_is_announced_as_its_head_is_written_RFC9112_6_3(string text, int announced) => Answers(
        call =>
        {
            call.WriteText(text);
            Exchange exchange = call.Exchange;
            exchange.Answer.StopWriting();
            exchange.Answer.Headers.ContentLength = announced;
            exchange.Answer.StartWhole(isDeclared: true);
            exchange.Answer.WriteEnd();
        },
        (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((200, $"{text.Length}", text), (answer.Status, answer.Field("Content-Length"), answer.BodyText));
            bench.StillServes(caller);
        });

    // As on Kestrel.
    [Theory]
    [InlineData(204, 5, 500)]
    [InlineData(205, 5, 500)]
    [InlineData(304, 5, 304)]
    [InlineData(204, 0, 204)]
    [InlineData(205, 0, 205)]
    public void A_response_that_never_has_a_body_announces_none_RFC9110_8_6(int status, int length, int expected) => Answers(
        call =>
        {
            call.Status = status;
            call.Length = length;
        },
        (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((expected, expected switch { 204 => null, 304 => "5", _ => "0" }, 0), (answer.Status, answer.Field("Content-Length"), answer.Body.Length));
            bench.StillServes(caller);
        });

    [Theory]
    [InlineData(204)]
    [InlineData(205)]
    public void An_application_that_starts_such_a_response_is_told_and_may_answer_something_else_RFC9110_8_6(int status) => Run(
        async call =>
        {
            call.Status = status;
            call.Length = 5;
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await call.FlushAsync());
            call.Status = 200;
            call.WriteText("whole");
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Answer answer = bench.Get(caller, "/");
            Assert.Equal((200, "5", "whole"), (answer.Status, answer.Field("Content-Length"), answer.BodyText));
            bench.StillServes(caller);
        });
}

public sealed class FastCgiContentLengthTests() : ContentLengthTests(Way.FastCgiToPlain);

public sealed class HttpContentLengthTests() : ContentLengthTests(Way.HttpToPlain);

public sealed class FastCgiHostedContentLengthTests() : ContentLengthTests(Way.FastCgiToHosted);

public sealed class HttpHostedContentLengthTests() : ContentLengthTests(Way.HttpToHosted);
