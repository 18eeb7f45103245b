// Files that take their time: on a disk that is busy, behind a network, made up while they are read. Only who sends one waits for it.

using System.IO.Pipes;
using Microsoft.Win32.SafeHandles;
using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class SlowFileTests(Way way) : SharedTests(way)
{
    private const int File = 78;
    private const int Size = 200_000;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);     // nothing here takes it, unless it takes for ever

    // The locks of the server know threads: what must not wait for a file is done by another than sends it.
    private static void Elsewhere(Action action) => Assert.True(Task.Run(action).Wait(s_patience), "It waits for the file.");

    [Fact]
    public void A_loop_whose_handler_waits_for_a_file_serves_others_once_it_has_been_taken_over()
    {
        SharedBench? on = null;
        int others = 0;
        Run(
            async call =>
            {
                if (call.Path == "/file")
                {
                    call.WriteText("before ");
                    await call.FlushAsync();
                    await call.Exchange.SendSimulatedFileAsync(File, Size);
                }
            },
            bench =>
            {
                on = bench;
                Caller other = bench.Connect();
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                bench.Simulation.World.InFile = () =>
                {
                    bench.Simulation.World.InFile = null;
                    on.Simulation.Services.Monitor.Look();
                    on.Simulation.Services.Monitor.Look();
                    Elsewhere(() =>
                    {
                        on.StillServes(other);
                        others++;
                    });
                };
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/file"));
                Assert.Equal(1, others);
                Assert.Equal([.. "before "u8, .. Plan.Bytes("file", 0, Size)], Assert.Single(caller.Answers).Body);
                bench.StillServes(caller);
            });
    }

    [Theory]
    [InlineData("its client reads")]
    [InlineData("time passes")]
    [InlineData("the server stops")]
    public void A_loop_does_not_wait_for_a_file_when(string what)
    {
        const int Room = 30_000;
        var pause = new TaskCompletionSource();
        bool wasThere = false;
        Run(
            async call =>
            {
                if (call.Path == "/file")
                {
                    call.Write(Plan.Bytes("before", 0, Room + 1_000));
                    await call.FlushAsync();
                    await pause.Task;
                    await call.Exchange.SendSimulatedFileAsync(File, Size);
                }
            },
            bench =>
            {
                // What was flushed has not all left, and the loop is to go on with it; but the file comes first.
                bench.Simulation.World.SendCapacityMax = Room;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                Caller other = bench.Connect();
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/file"));
                _ = caller.End.Read(what == "time passes" ? 5_000 : int.MaxValue);
                bench.Simulation.World.SendCapacityMax = 256 * 1024;
                bench.Simulation.World.InFile = () =>
                {
                    bench.Simulation.World.InFile = null;
                    wasThere = true;
                    Elsewhere(() =>
                    {
                        if (what == "the server stops")
                        {
                            bench.Cut();
                        }
                        else
                        {
                            bench.Pass(TimeSpan.FromSeconds(3));
                            bench.Reads = true;
                            bench.StillServes(other);
                        }
                    });
                };
                pause.SetResult();
                Assert.True(wasThere);
                if (what != "the server stops")
                {
                    bench.Reads = true;
                    bench.Settle();
                    Assert.Equal([.. Plan.Bytes("before", 0, Room + 1_000), .. Plan.Bytes("file", 0, Size)], Assert.Single(caller.Answers).Body);
                }
            });
    }

    [System.Runtime.InteropServices.DllImport("libc", EntryPoint = "dup2", SetLastError = true)]
    private static extern int Duplicate(int from, int to);

    [Fact]
    public void The_end_of_a_handler_does_not_wait_for_a_file_that_is_read_beside_it_and_its_answer_does_not_look_whole_RFC9112_8()
    {
        using var feed = new AnonymousPipeServerStream(PipeDirection.Out);
        using SafeFileHandle file = System.IO.File.OpenHandle("/dev/null");
        _ = RandomAccess.GetLength(file);       // what is asked once of a handle is taken for granted: it passes for a file that can be read anywhere
        Assert.True(Duplicate((int)feed.ClientSafePipeHandle.DangerousGetHandle(), (int)file.DangerousGetHandle()) >= 0);
        var ends = new TaskCompletionSource();
        Task? sent = null;
        Run(
            async call =>
            {
                if (call.Path == "/file")
                {
                    Exchange exchange = call.Exchange;
                    feed.Write("half"u8);
                    sent = Task.Run(() => exchange.File.SendAsync(file, 0, 0, FileExtent.ToTheEnd, exchange.Ticket, CancellationToken.None).AsTask());
                    Assert.True(SpinWait.SpinUntil(() => exchange.Answer.Written == 4 || sent.IsCompleted, s_patience));    // there is no more for now
                    Assert.False(sent.IsCompleted, sent.Exception?.ToString());
                    await ends.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/file"));
                try
                {
                    Elsewhere(ends.SetResult);
                    bench.Settle();
                    bench.Pass(TimeSpan.FromMilliseconds(400));
                    Assert.Empty(caller.Answers);
                    Assert.True(caller.IsAtEnd);
                    bench.OthersAreServed();
                }
                finally
                {
                    feed.Dispose();
                }

                Assert.True(sent!.ContinueWith(static _ => { }, TaskScheduler.Default).Wait(s_patience));
                Assert.IsAssignableFrom<InvalidOperationException>(sent.Exception?.InnerException);      // an ObjectDisposedException is one
            });
    }

    [Fact]
    public void A_file_that_fails_while_it_is_read_leaves_no_response_that_looks_whole_whatever_its_handler_makes_of_it_RFC9112_8()
    {
        Exception? failure = null;
        Run(
            async call =>
            {
                if (call.Path == "/file")
                {
                    await call.WriteAsync("begun"u8.ToArray());
                    using SafeFileHandle folder = System.IO.File.OpenHandle("/proc/self/mem");       // cannot be read at its begin
                    failure = await Record.ExceptionAsync(() => call.Exchange.File.SendAsync(folder, 0, 0, FileExtent.ToTheEnd, call.Exchange.Ticket, CancellationToken.None).AsTask());
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/file"));
                bench.Pass(TimeSpan.FromMilliseconds(400));
                Assert.IsAssignableFrom<IOException>(failure);
                Assert.DoesNotContain(caller.Answers, static answer => answer.Status == 200);
                bench.OthersAreServed();
            });
    }
}

public sealed class FastCgiSlowFileTests() : SlowFileTests(Way.FastCgiToPlain);

public sealed class HttpSlowFileTests() : SlowFileTests(Way.HttpToPlain);

public sealed class FastCgiHostedSlowFileTests() : SlowFileTests(Way.FastCgiToHosted);

public sealed class HttpHostedSlowFileTests() : SlowFileTests(Way.HttpToHosted);
