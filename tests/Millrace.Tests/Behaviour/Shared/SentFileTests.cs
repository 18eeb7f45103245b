// Response.SendFileAsync of ASP.NET Core: what it has sent is on its way when it ends, as behind a write.

using Microsoft.AspNetCore.Http;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class SentFileTests(Way way) : SharedTests(way)
{
    [Theory]
    [InlineData(10, "")]
    [InlineData(10, "its length is announced")]
    [InlineData(10, "its handler has waited before")]
    [InlineData(16_383, "")]
    public void A_file_is_with_the_client_while_its_handler_goes_on(int bytes, string how)
    {
        var before = new TaskCompletionSource();
        var behind = new TaskCompletionSource();
        string path = Path.GetTempFileName();
        File.WriteAllBytes(path, Plan.Bytes("file", 0, bytes));
        Run(
            async call =>
            {
                HttpContext context = ((HostedCall)call).Context;
                context.Response.ContentLength = how == "its length is announced" ? bytes : null;
                if (how == "its handler has waited before")
                {
                    await before.Task;
                }

                await context.Response.SendFileAsync(path);
                await behind.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                before.SetResult();
                bench.Settle();
                Answer answer = caller.Begun ?? Assert.Single(caller.Answers);      // over HTTP one with a length is over for its client
                Assert.Equal(Plan.Bytes("file", 0, bytes), answer.Body);
                behind.SetResult();
                bench.Settle();
                Assert.Equal(Plan.Bytes("file", 0, bytes), Assert.Single(caller.Answers).Body);
            });
        File.Delete(path);
    }

    [Fact]
    public void A_file_and_the_end_of_its_answer_leave_together()
    {
        string path = Path.GetTempFileName();
        File.WriteAllText(path, "the file");
        Run(
            call => new ValueTask(((HostedCall)call).Context.Response.SendFileAsync(path)),
            bench =>
            {
                Caller caller = bench.Connect();
                int sends = 0;
                bench.Simulation.World.InSend = () => sends++;
                bench.Send(caller, caller.Request("/"));
                Assert.Equal("the file", Assert.Single(caller.Answers).BodyText);
                Assert.Equal(1, sends);
            });
        File.Delete(path);
    }

    // RFC 9110 §9.3.2: nobody gets a byte of it, and to read it takes as long as it is.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Of_a_file_nothing_is_read_for_HEAD_RFC9110_9_3_2(bool isAnnounced)
    {
        const long Length = 1L << 36;
        string path = Path.GetTempFileName();
        using (FileStream file = File.OpenWrite(path))
        {
            file.SetLength(Length);     // without a block on the disk
        }

        Run(
            async call =>
            {
                Microsoft.AspNetCore.Http.HttpResponse response = ((HostedCall)call).Context.Response;
                response.ContentLength = isAnnounced ? Length : null;
                await response.SendFileAsync(path);
                if (isAnnounced)
                {
                    _ = await Assert.ThrowsAsync<InvalidOperationException>(async () => await response.Body.WriteAsync(new byte[1]));
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/", method: "HEAD"));
                Answer answer = Assert.Single(caller.Answers);
                Assert.Equal((200, 0), (answer.Status, answer.Body.Length));
                Assert.Equal(isAnnounced ? Length.ToString(System.Globalization.CultureInfo.InvariantCulture) : null, answer.Field("Content-Length"));
            });
        File.Delete(path);
    }

    [Fact]
    public void Nothing_of_a_file_begins_no_answer()
    {
        string path = Path.GetTempFileName();
        Run(
            async call =>
            {
                await ((HostedCall)call).Context.Response.SendFileAsync(path);
                ((HostedCall)call).Context.Response.StatusCode = 404;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                Assert.Equal(404, Assert.Single(caller.Answers).Status);
            });
        File.Delete(path);
    }
}

public sealed class FastCgiSentFileTests() : SentFileTests(Way.FastCgiToHosted);

public sealed class HttpSentFileTests() : SentFileTests(Way.HttpToHosted);
