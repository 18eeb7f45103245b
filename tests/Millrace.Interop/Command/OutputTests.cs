// What becomes of the command when its output cannot be written: a reader that goes, a disk that is full.

using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed class OutputTests
{
    [Theory]
    [InlineData("http")]
    [InlineData("fastcgi")]
    public async Task A_reader_that_goes_ends_get_at_once_and_without_a_word(string scheme)
    {
        await using var app = await StartHelloAsync($"{scheme}://127.0.0.1:0");
        string address = Listening(app.Output);

        // /stream takes three seconds; the second line finds nobody.
        await using var shell = Shell($"{{ dotnet \"$0\" get {address} /stream -b; echo \"ended with $?\" >&2; }} | head -n 1");

        Assert.Equal(0, await shell.WaitForExitAsync());
        Assert.Equal("ended with 141\n", shell.Error);
        Assert.Equal("line 1 of 10\n", shell.Output);
    }

    // Nobody knows how long it will be: over HTTP it is sent in chunks, over FastCGI without CONTENT_LENGTH.
    [Theory]
    [InlineData("http")]
    [InlineData("fastcgi")]
    public async Task Standard_input_is_sent_as_it_comes(string scheme)
    {
        await using var app = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("tests/Millrace.Interop.HostKinds", "Millrace.Interop.HostKinds"), "--urls", $"{scheme}://127.0.0.1:0", "--", "Served");
        await app.WaitForOutputAsync("listens on");
        await using var shell = Shell($"{{ seq 1 100000; sleep 0.2; seq 1 100000; }} | dotnet \"$0\" get {Listening(app.Output)} /echo --stdin -b | cmp - <(seq 1 100000; seq 1 100000) && echo the same");

        int code = await shell.WaitForExitAsync();
        Assert.Equal(("the same\n", "", 0), (shell.Output, shell.Error, code));
    }

    // Whoever types nothing keeps nobody from the end. (The framework's HTTP client takes no answer before it has sent all.)
    [Theory]
    [InlineData("http", "/echo", 2, 28)]
    [InlineData("fastcgi", "/echo", 2, 28)]
    [InlineData("fastcgi", "/nowhere", 50, 22)]
    public async Task Standard_input_that_stays_open_holds_up_neither_the_time_limit_nor_an_answer(string scheme, string path, int limit, int code)
    {
        await using var app = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("tests/Millrace.Interop.HostKinds", "Millrace.Interop.HostKinds"), "--urls", $"{scheme}://127.0.0.1:0", "--", "Served");
        await app.WaitForOutputAsync("listens on");
        await using var shell = Shell($"dotnet \"$0\" get {Listening(app.Output)} {path} --stdin --timeout {limit} < <(exec sleep 90 2>/dev/null) >/dev/null 2>&1");

        Assert.Equal(code, await shell.WaitForExitAsync());
    }

    [Fact]
    public async Task A_full_disk_under_get_is_a_sentence_and_not_the_servers_fault()
    {
        await using var app = await StartHelloAsync("http://127.0.0.1:0");
        await using var shell = Shell($"dotnet \"$0\" get {Listening(app.Output)} /hello >/dev/full; echo \"ended with $?\"");

        Assert.Equal(0, await shell.WaitForExitAsync());
        Assert.Equal("millrace: The output cannot be written: No space left on device.\n", shell.Error);
        Assert.Equal("ended with 1\n", shell.Output);
    }

    [Theory]
    [InlineData(">/dev/full", "No space left on device")]
    [InlineData("> >(true)", "The reader of the output has gone")]
    public async Task An_application_runs_on_where_its_addresses_cannot_be_printed(string redirection, string reason)
    {
        string address = FreeAddress();
        await using var shell = Shell($"exec dotnet \"$0\" run '{CommandProcess.AssemblyOf("samples/Hello", "Hello")}' --urls {address} {redirection}");
        await shell.WaitForErrorAsync(reason);
        await shell.WaitForErrorAsync($"hello listens on {address} all the same");

        using var client = new HttpClient();
        Assert.Equal("Hello, World!", await client.GetStringAsync($"{address}/hello"));
        shell.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await shell.WaitForExitAsync());
    }

    [Fact]
    public async Task A_wrong_command_line_is_one_where_the_sentence_cannot_be_written_either()
    {
        await using var shell = Shell("dotnet \"$0\" fly 2>/dev/full; echo \"ended with $?\"");

        Assert.Equal(0, await shell.WaitForExitAsync());
        Assert.Equal("ended with 2\n", shell.Output);
    }

    private static CommandProcess Shell(string line) =>
        CommandProcess.StartProgram("bash", "-c", line, CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"));

    private static async Task<CommandProcess> StartHelloAsync(string address)
    {
        var app = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("samples/Hello", "Hello"), "--urls", address);
        await app.WaitForOutputAsync("listens on");
        return app;
    }

    private static string Listening(string output) => output.Split('\n').Single(static line => line.Contains(" listens on ", StringComparison.Ordinal)).Split(' ')[^1];

    private static string FreeAddress()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        return string.Create(CultureInfo.InvariantCulture, $"http://{listener.LocalEndpoint}");
    }
}
