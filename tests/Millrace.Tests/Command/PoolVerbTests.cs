// `millrace pool` beside an application with pools, and beside somebody who only says that he is one.

using System.Net.Sockets;
using System.Runtime.Versioning;
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Millrace.Command;
using Millrace.Command.Pools;
using Millrace.Workers;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class PoolVerbTests : IAsyncLifetime
{
    private const string Pool = """{"name":"p","min":1,"max":2,"generation":1,"isHeld":false,"isClosed":false,"waiting":0,"running":0,"calls":0,"failures":0,"refusedFull":0,"refusedLate":0,"leftQueue":0,"overTime":0,"workers":[WORKERS],"stuck":[],"startFailure":null,"hits":[],"ends":{}}""";
    private const string Worker = """{"id":1,"generation":1,"state":"Busy","calls":1,"failures":0,"mean":"00:00:01","p99":"00:00:01","last":"00:00:01","started":"2026-01-01T00:00:00Z","hits":1,"restarts":0,"recentRestarts":[],"busyFor":"00:00:02","busyWith":"\u001b[2J"}""";

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-pools-");
    private IHost _host = null!;

    private string At => Path.Combine(_folder.FullName, "pools.sock");

    private WorkerPool<Reports> Reporting => _host.Services.GetRequiredService<WorkerPool<Reports>>();

    public async ValueTask InitializeAsync()
    {
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddLogging();
        builder.Services.AddWorkerPool<Reports>(configure: static options => (options.Min, options.Max, options.Name) = (2, 4, "reports"));
        builder.Services.AddPoolControl(At);
        _host = builder.Build();
        await _host.StartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await _host.StopAsync();
        await ((IAsyncDisposable)_host).DisposeAsync();
        _folder.Delete(recursive: true);
    }

    [Fact]
    public async Task Pools_and_their_workers_are_listed()
    {
        _ = await Reporting.RunAsync(static (worker, _) => worker);

        CommandLine list = await RunAsync("list");

        Assert.Equal((0, ""), (list.ExitCode, list.Error));
        string[][] lines = [.. list.Output.Split('\n', StringSplitOptions.RemoveEmptyEntries).Select(static line => line.Split("  ", StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries))];
        Assert.Equal(["POOL", "PROCESS", "STATE", "WORKERS", "BUSY", "WAITING", "CALLS", "FAILED", "REFUSED", "OVER TIME", "GEN"], lines[0]);
        Assert.Equal(["reports", "open", "2 (2-4)", "0", "0", "1", "0", "0", "0", "1"], lines[1].Where(static (_, i) => i != 1));
        Assert.StartsWith(FormattableString.Invariant($"{Environment.ProcessId}"), lines[1][1], StringComparison.Ordinal);
        Assert.Equal(["1", "2"], lines[3..].Select(static line => line[0]));
        Assert.All(lines[3..], static line => Assert.Equal("idle", line[1]));

        Assert.Equal(list.Output.Split('\n')[1], (await RunAsync("list", "reports")).Output.Split('\n')[1]);
        Assert.Contains("\"name\":\"reports\"", (await RunAsync("list", "--json")).Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_is_asked_for_is_done_and_said()
    {
        Assert.Equal((0, "reports: has from 3 to 3 workers\n"), Done(await RunAsync("resize", "reports", "3")));
        Assert.Equal((0, "reports: has from 1 to 2 workers\n"), Done(await RunAsync("resize", "reports", "1", "2")));
        Assert.Equal((0, "reports: is held: no worker has a call, and calls wait until it is released\n"), Done(await RunAsync("hold", "reports")));
        Assert.True(Reporting.GetStatus().IsHeld);
        Assert.Equal((0, "reports: is released\n"), Done(await RunAsync("release", "reports")));
        Assert.Equal((0, "reports: has workers of generation 2\n"), Done(await RunAsync("swap", "reports")));
        int worker = Reporting.GetStatus().Workers[0].Id;
        Assert.Equal((0, $"reports: worker {worker} has been killed, and another takes its place\n"), Done(await RunAsync("kill", "reports", FormattableString.Invariant($"{worker}"))));
    }

    [Theory]
    [InlineData(ExitCode.Failure, "There is no pool other. There are: reports.", "list", "other")]
    [InlineData(ExitCode.Failure, "There is no pool other. There are: reports.", "hold", "other")]
    [InlineData(ExitCode.Failure, "reports: there is no worker 77.", "kill", "reports", "77")]
    [InlineData(ExitCode.Usage, "POOL is missing: `millrace pool list` shows which there are.", "hold")]
    [InlineData(ExitCode.Usage, "`millrace pool kill POOL N` wants the number of one worker: `millrace pool list` shows them.", "kill", "reports")]
    [InlineData(ExitCode.Usage, "`millrace pool recycle POOL N` wants the number of one worker: `millrace pool list` shows them.", "recycle", "reports", "1", "2")]
    [InlineData(ExitCode.Usage, "`millrace pool resize POOL N` wants how many workers there are to be, or at least and at most.", "resize", "reports")]
    [InlineData(ExitCode.Usage, "`millrace pool hold POOL` takes no number.", "hold", "reports", "1")]
    [InlineData(ExitCode.Usage, "", "explode", "reports")]
    public async Task What_cannot_be_done_is_a_sentence_and_an_exit_code(int exitCode, string sentence, params string[] args)
    {
        CommandLine asked = await RunAsync(args);

        Assert.Equal((exitCode, ""), (asked.ExitCode, asked.Output));
        Assert.StartsWith($"millrace: {sentence}", asked.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Where_nobody_listens_a_sentence_says_what_an_application_calls()
    {
        string path = Path.Combine(_folder.FullName, "nobody.sock");
        CommandLine list = await CommandLine.RunAsync("pool", "list", "--control", path);

        Assert.Equal(ExitCode.CannotConnect, list.ExitCode);
        Assert.Equal($"millrace: Nobody listens on {path}. An application does where it calls services.AddPoolControl(\"{path}\"), while it runs.\n", list.Error);
    }

    // Root may ask whomever it likes.
    [Theory]
    [InlineData("null")]
    [InlineData("""{"process":1,"application":"a","pools":null}""")]
    [InlineData("""{"process":1,"application":null,"pools":[]}""")]
    [InlineData("""{"process":1,"application":"a","pools":[null]}""")]
    [InlineData("""{"process":1,"application":"a","pools":[{"name":"p"}]}""")]
    [InlineData("workers: null")]
    [InlineData("a worker without restarts")]
    public async Task An_answer_that_is_none_of_a_process_with_pools_is_refused_with_a_sentence(string answer)
    {
        answer = answer switch
        {
            "workers: null" => Status(Pool.Replace("[WORKERS]", "null", StringComparison.Ordinal)),
            "a worker without restarts" => Status(Pool.Replace("WORKERS", Worker.Replace("\"recentRestarts\":[]", "\"recentRestarts\":null", StringComparison.Ordinal), StringComparison.Ordinal)),
            _ => answer,
        };
        CommandLine list = await AskAsync(answer);

        Assert.Equal((ExitCode.Failure, ""), (list.ExitCode, list.Output));
        Assert.Contains("has not answered as a process with pools does.", list.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Nothing_of_an_answer_commands_the_terminal()
    {
        CommandLine list = await AskAsync(Status(Pool.Replace("WORKERS", Worker, StringComparison.Ordinal).Replace("\"startFailure\":null", "\"startFailure\":\"\\u001b]0;x\\u0007\"", StringComparison.Ordinal)));

        Assert.Equal(0, list.ExitCode);
        Assert.Contains("[2J for 2000ms", list.Output, StringComparison.Ordinal);
        Assert.DoesNotContain(list.Output, static c => char.IsControl(c) && c is not '\n');
    }

    [Fact]
    public async Task Who_says_nothing_or_something_else_is_left_out_and_the_others_are_found()
    {
        using Socket silent = Listen(out string path);
        List<string> said = [];
        var search = new PoolSearch(_folder.FullName, Path.Combine(_folder.FullName, "no daemon")) { Patience = TimeSpan.FromSeconds(2) };
        File.SetUnixFileMode(_folder.FullName, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);

        var (client, status) = Assert.Single(await search.FindAllAsync(said.Add, TestContext.Current.CancellationToken));
        client.Dispose();
        Assert.Equal((At, "reports"), (client.Path, Assert.Single(status.Pools).Name));
        Assert.Equal($"The process behind {path} has not answered within 2 s. It is left out.", Assert.Single(said));
    }

    // In /tmp anybody can have been first.
    [Theory]
    [InlineData(true, 1)]
    [InlineData(false, 0)]
    public async Task A_folder_that_others_may_write_to_is_left_out_and_the_daemon_is_found(bool isOpen, int sentences)
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string open = Directory.CreateDirectory(Path.Combine(_folder.FullName, "open")).FullName;
        File.WriteAllText(Path.Combine(open, "1.sock"), "");
        File.SetUnixFileMode(open, (UnixFileMode)(isOpen ? 0x1FF : 0x1C0));
        List<string> said = [];

        var (client, _) = Assert.Single(await new PoolSearch(open, At).FindAllAsync(said.Add, TestContext.Current.CancellationToken));
        client.Dispose();
        Assert.Equal(sentences, said.Count);
        Assert.All(said, sentence => Assert.StartsWith($"{open} is left out: ", sentence, StringComparison.Ordinal));
    }

    [Fact]
    public async Task Nothing_that_a_process_says_begins_a_line()
    {
        using Socket listener = Listen(out string path);
        Task<CommandLine> asked = CommandLine.RunAsync("pool", "hold", "p", "--control", path);
        await AnswerAsync(listener, Status(Pool.Replace("WORKERS", "", StringComparison.Ordinal)));
        await AnswerAsync(listener, """{"ok":true,"message":"p: done\nshop: generation 99 serves"}""");

        Assert.Equal("p: done\n    shop: generation 99 serves\n", (await asked).Output);
    }

    [Fact]
    public async Task A_process_that_says_nothing_is_waited_for_no_longer_than_Patience()
    {
        using Socket listener = Listen(out string path);
        using var client = new PoolClient(path) { Patience = TimeSpan.FromMilliseconds(200) };

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => client.StatusAsync(TestContext.Current.CancellationToken));
        Assert.Equal($"The process behind {path} has not answered within 0.2 s.", failure.Message);
    }

    private static string Status(string pool) => $$"""{"process":1,"application":"a","pools":[{{pool}}]}""";

    private static (int ExitCode, string Output) Done(CommandLine done) => (done.ExitCode, done.Output + done.Error);

    private Task<CommandLine> RunAsync(params string[] args) => CommandLine.RunAsync(["pool", .. args, "--control", At]);

    private async Task<CommandLine> AskAsync(string answer)
    {
        using Socket listener = Listen(out string path);
        Task<CommandLine> asked = CommandLine.RunAsync("pool", "list", "--control", path);
        await AnswerAsync(listener, answer);
        return await asked;
    }

    private static async Task AnswerAsync(Socket listener, string answer)
    {
        using Socket socket = await listener.AcceptAsync();
        _ = await socket.ReceiveAsync(new byte[4096]);
        _ = await socket.SendAsync(Encoding.UTF8.GetBytes(FormattableString.Invariant($"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {Encoding.UTF8.GetByteCount(answer)}\r\n\r\n{answer}")));
    }

    private Socket Listen(out string path)
    {
        path = Path.Combine(_folder.FullName, "other.sock");
        var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(path));
        listener.Listen();
        return listener;
    }

    private sealed class Reports;
}
