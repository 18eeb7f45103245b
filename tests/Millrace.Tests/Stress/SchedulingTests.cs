// How the system schedules what handlers run on and what they start: as any thread, whatever the loops do for themselves
// (sched(7)).

using System.Diagnostics;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class SchedulingTests(ITestOutputHelper output) : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Workers)]
    public async Task Handlers_and_the_threads_and_processes_they_start_are_scheduled_as_any_other(DispatchMode dispatch)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            static (request, response) => response.WriteText(request.Path switch
            {
                "/thread" => OnNewThread(),
                "/process" => OfNewProcess(),
                "/priority" => WithPriority(),
                _ => Policy(),
            }),
            new MillraceOptions { Loops = 1, Dispatch = dispatch });

        // Enough requests at once for the loop to be woken in its turn (Waking.InTurn).
        using var load = new Load(server.Addresses[0], 6, answer => Assert.Equal("0", answer.Text));
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            for (int i = 0; i < 20; i++)
            {
                Assert.Equal("0", peer.Exchange(new FastCgiRequest("/thread")).Text);
                Assert.Equal("0", peer.Exchange(new FastCgiRequest("/process")).Text);
                Assert.Equal("AboveNormal", peer.Exchange(new FastCgiRequest("/priority")).Text);
            }
        }

        load.End();
    }

    // Else the test above shows nothing. The policy of a thread that waits can be read while it waits.
    [Fact]
    public async Task A_busy_loop_waits_under_SCHED_BATCH_and_a_quiet_one_does_not()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(), static (_, response) => response.WriteText("x"), new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });
        using FastCgiPeer quiet = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 20; i++)
        {
            _ = quiet.Exchange(new FastCgiRequest("/"));
            Thread.Sleep(20);
            Assert.DoesNotContain("3", DriverPolicies());
        }

        bool seen = false;
        using var load = new Load(server.Addresses[0], 8, answer => Assert.Equal("x", answer.Text));
        for (long giveUpAt = Environment.TickCount64 + 20_000; !seen && Environment.TickCount64 < giveUpAt;)
        {
            seen = DriverPolicies().Contains("3");
        }

        load.End();
        output.WriteLine($"requests {server.Engine.Loops[0].Counters.Requests}, turns {server.Engine.Loops[0].Turns}");
        Assert.True(seen);
    }

    [Fact]
    public async Task Without_BatchScheduling_a_busy_loop_is_scheduled_as_any_thread()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(), static (_, response) => response.WriteText(Policy()), new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline, BatchScheduling = false });
        server.Engine.Services.Code = new CodeWatch([]);
        using var load = new Load(server.Addresses[0], 8, answer => Assert.Equal("0", answer.Text));
        for (long endAt = Environment.TickCount64 + 2_000; Environment.TickCount64 < endAt;)
        {
            Assert.DoesNotContain("3", DriverPolicies());
        }

        load.End();
        Assert.True(server.Engine.Loops[0].Counters.Requests > 1_000);
    }

    // No assembly names what starts threads: the drivers of a busy loop stay under SCHED_BATCH while handlers run, and nothing else does
    // for longer than a second, threads of the runtime that a handler had started included. A quiet loop leaves it.
    [Fact]
    public async Task Where_nothing_starts_threads_a_busy_loop_stays_under_SCHED_BATCH_and_nothing_else_does()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            static (request, response) => response.WriteText(request.Path switch
            {
                "/thread" => OnLingeringThread(),
                _ => Policy(),
            }),
            new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });
        server.Engine.Services.Code = new CodeWatch([]);
        bool lasts = false;
        using var load = new Load(server.Addresses[0], 8, answer => lasts |= answer.Text == "3");
        Assert.True(ProcessState.Becomes(() => Volatile.Read(ref lasts)));
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            bool inherits = false;
            for (int i = 0; i < 100 && !inherits; i++)
            {
                inherits = peer.Exchange(new FastCgiRequest("/thread")).Text == "3";
            }

            Assert.True(inherits);      // else what follows shows nothing
            Assert.True(ProcessState.Becomes(() => !Policies("(lingers)").Contains("3")));
        }

        load.End();
        using FastCgiPeer quiet = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.True(ProcessState.Becomes(() => quiet.Exchange(new FastCgiRequest("/")).Text == "0"));
        Assert.DoesNotContain("3", DriverPolicies());
    }

    // ... and from the moment code comes that may start some, it does so no longer.
    [Fact]
    public async Task When_code_is_loaded_that_may_start_threads_the_drivers_leave_SCHED_BATCH_before_it_runs()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            static (request, response) => response.WriteText(request.Path == "/load" ? PolicyBeforeAndAfterLoading() : Policy()),
            new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });
        server.Engine.Services.Code = new CodeWatch([]);
        using var load = new Load(server.Addresses[0], 8, answer => Assert.True(answer.IsWhole));
        using FastCgiPeer loader = FastCgiPeer.Connect(server.Addresses[0]);
        string policies = "";
        for (int i = 0; i < 100 && !policies.StartsWith('3'); i++)
        {
            server.Engine.Services.Code = new CodeWatch([]);    // the loop may have become quiet just before the assembly was loaded
            Assert.True(ProcessState.Becomes(() => loader.Exchange(new FastCgiRequest("/")).Text == "3"));
            policies = loader.Exchange(new FastCgiRequest("/load")).Text;
        }

        Assert.Equal("3 0", policies);
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal("0", loader.Exchange(new FastCgiRequest("/")).Text);
        }

        load.End();
    }

    // The monitor, and whoever loads an assembly, have other things to do.
    [Fact]
    public void Without_a_descriptor_to_look_at_threads_with_they_keep_their_policy_and_nothing_fails()
    {
        BatchScheduling.Enter();
        try
        {
            using var none = new FewDescriptors(0);
            BatchScheduling.TakeBack(all: false);
        }
        finally
        {
            BatchScheduling.Leave();
        }
    }

    private static string PolicyBeforeAndAfterLoading()
    {
        string before = Policy();
        using var stream = new MemoryStream(File.ReadAllBytes(typeof(SchedulingTests).Assembly.Location));
        _ = new System.Runtime.Loader.AssemblyLoadContext("loaded later", isCollectible: true).LoadFromStream(stream);
        return $"{before} {Policy()}";
    }

    /// <summary>Clients that ask again as soon as they are answered, and keep a loop busy with it.</summary>
    private sealed class Load : IDisposable
    {
        private readonly CancellationTokenSource _over = new();
        private readonly ClientThreads _clients;

        public Load(string address, int clients, Action<FastCgiResponse> look) => _clients = ClientThreads.Start(clients, _ =>
        {
            using FastCgiPeer peer = FastCgiPeer.Connect(address);
            while (!_over.IsCancellationRequested)
            {
                look(peer.Exchange(new FastCgiRequest("/")));
            }
        });

        public void End()
        {
            _over.Cancel();
            _clients.Join();
        }

        public void Dispose() => _over.Cancel();
    }

    private static string OnNewThread()
    {
        string policy = "";
        var thread = new Thread(() => policy = Policy());
        thread.Start();
        thread.Join();
        return policy;
    }

    // The policy with which a thread begins that stays for a while.
    private static string OnLingeringThread()
    {
        string policy = "";
        using var told = new ManualResetEventSlim();
        var thread = new Thread(() =>
        {
            policy = Policy();
            told.Set();
            Thread.Sleep(5_000);
        }) { Name = "lingers", IsBackground = true };
        thread.Start();
        told.Wait();
        return policy;
    }

    private static string OfNewProcess()
    {
        using Process process = Process.Start(new ProcessStartInfo("cat", "/proc/self/stat") { RedirectStandardOutput = true })!;
        string stat = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        return PolicyIn(stat);
    }

    private static string WithPriority()
    {
        Thread.CurrentThread.Priority = ThreadPriority.AboveNormal;
        return Thread.CurrentThread.Priority.ToString();
    }

    private static string Policy() => PolicyIn(File.ReadAllText("/proc/thread-self/stat"));

    // proc(5): field 41; the first behind the name in parentheses is field 3.
    private static string PolicyIn(string stat) => stat[(stat.LastIndexOf(')') + 2)..].Split(' ')[41 - 3];

    private static List<string> DriverPolicies() => Policies("(Millrace driver");

    private static List<string> Policies(string name)
    {
        var policies = new List<string>();
        foreach (string task in Directory.GetDirectories("/proc/self/task"))
        {
            try
            {
                string stat = File.ReadAllText(Path.Combine(task, "stat"));
                if (stat.Contains(name, StringComparison.Ordinal))
                {
                    policies.Add(PolicyIn(stat));
                }
            }
            catch (IOException)
            {
                // It has ended meanwhile.
            }
        }

        return policies;
    }
}
