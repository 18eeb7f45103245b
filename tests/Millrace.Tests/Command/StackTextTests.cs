// The stacks of a process as a person reads them.

using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using Millrace.Command.Stacks;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

public sealed class StackTextTests
{
    private static readonly string[] s_idle = ["System.Threading.LowLevelLifoSemaphore.WaitForSignal(Int32)", "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()"];

    [Fact]
    public void Threads_that_do_the_same_stand_together_the_most_first() => Assert.Equal(
        [
            "2 threads (3, 4)", "    at Shop.Lock()", "    at Shop.Main()",
            "1 thread (1)", "    at Shop.Main()",
            "2 threads of the thread pool: no work",
        ],
        StackText.Lines([new(1, ["Shop.Main()"]), new(2, s_idle), new(3, ["Shop.Lock()", "Shop.Main()"]), new(4, ["Shop.Lock()", "Shop.Main()"]), new(5, s_idle), new(6, [])]));

    [Fact]
    public void A_thread_of_the_pool_that_works_is_told() =>
        Assert.Equal(["1 thread (2)", "    at Shop.Work()", "    at " + s_idle[1]], StackText.Lines([new(2, ["Shop.Work()", s_idle[1]])]));

    [Fact]
    public void Many_threads_are_counted_and_the_first_are_named() =>
        Assert.Equal("9 threads (1, 2, 3, 4, 5, 6, 7, 8, ...)", StackText.Lines([.. Enumerable.Range(1, 9).Select(static number => new ThreadStack(number, ["Shop.Lock()"]))])[0]);

    [Theory]
    [InlineData(125, 250)]      // two lines each
    [InlineData(126, 250)]
    public void More_lines_than_anybody_reads_are_counted(int threads, int lines)
    {
        var told = StackText.Lines([.. Enumerable.Range(1, threads).Select(static number => new ThreadStack(number, [$"Shop.M{number}()"]))]);
        Assert.Equal(lines, told.Count);
        Assert.Equal(threads == 125 ? "    at Shop.M125()" : "... and 3 lines more", told[^1]);
    }

    // Neither asked nor asking is this process itself: the one stands still while its dump is written, the other loads libraries that are for a process of their own.
    [Fact]
    public async Task A_process_is_asked_where_it_listens_whatever_lies_there_under_its_number()
    {
        using var folder = new SocketFolder();
        using var silent = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        silent.Bind(new UnixDomainSocketEndPoint(folder.PathOf("silent.sock")));
        silent.Listen();
        string command = Path.Combine(AppContext.BaseDirectory, "Millrace.Command.dll");
        using var child = Process.Start("dotnet", [command, "get", "fastcgi://unix:" + folder.PathOf("silent.sock"), "/"]);
        string path = PathOf(child.Id, 99_999_999);
        try
        {
            using Socket asked = await silent.AcceptAsync(TestContext.Current.CancellationToken).AsTask().WaitAsync(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken);
            using (var planted = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
            {
                planted.Bind(new UnixDomainSocketEndPoint(path));       // and nobody listens there any more
            }
            using var reader = Process.Start(new ProcessStartInfo("dotnet", [command, "stacks", child.Id.ToString(CultureInfo.InvariantCulture)]) { RedirectStandardOutput = true })!;
            Assert.Contains("Main", await reader.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken), StringComparison.Ordinal);
        }
        finally
        {
            child.Kill();
            File.Delete(path);
        }
    }

    [Theory]
    [InlineData("nothing that it knows")]
    [InlineData("DOTNET_IPC_V1")]
    public async Task Who_listens_under_the_number_of_another_process_is_not_asked(string answer)
    {
        using var sleeper = Process.Start("sleep", "100");
        string path = PathOf(sleeper.Id, 99_999_999);
        using var planted = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        planted.Bind(new UnixDomainSocketEndPoint(path));
        planted.Listen();
        Task<int> asked = AnswerAsync(planted, answer);
        try
        {
            var failure = await Assert.ThrowsAsync<Millrace.Command.CommandFailure>(() => ThreadStacks.ReadAsync(sleeper.Id, TestContext.Current.CancellationToken));
            Assert.Equal($"The stacks of process {sleeper.Id} cannot be had: it has no .NET runtime that listens in {Path.GetTempPath()}.", failure.Message);
            Assert.Equal(0, await asked.WaitAsync(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));
        }
        finally
        {
            sleeper.Kill();
            File.Delete(path);
        }
    }

    private static string PathOf(int process, int number) => Path.Join(Path.GetTempPath(), FormattableString.Invariant($"dotnet-diagnostic-{process}-{number}-socket"));

    // How much it was asked.
    private static async Task<int> AnswerAsync(Socket listener, string answer)
    {
        using Socket socket = await listener.AcceptAsync();
        int count = await socket.ReceiveAsync(new byte[4096]);
        _ = count == 0 ? 0 : await socket.SendAsync(System.Text.Encoding.ASCII.GetBytes(answer + new string('\0', 40)));
        return count;
    }

    [Fact]
    public async Task What_is_no_process_of_dotnet_has_none()
    {
        using var sleeper = Process.Start("sleep", "100");
        try
        {
            var failure = await Assert.ThrowsAsync<Millrace.Command.CommandFailure>(() => ThreadStacks.ReadAsync(sleeper.Id, TestContext.Current.CancellationToken));
            Assert.StartsWith($"The stacks of process {sleeper.Id} cannot be had: ", failure.Message, StringComparison.Ordinal);
        }
        finally
        {
            sleeper.Kill();
        }
    }
}
