// The command line itself: what is understood, what is refused, and with which words.

namespace Millrace.Tests.Command;

public sealed class CommandLineTests
{
    [Theory]
    [InlineData]
    [InlineData("run")]
    [InlineData("get")]
    [InlineData("config")]
    public async Task Every_verb_explains_itself_with_examples_and_exit_codes(params string[] verb)
    {
        var result = await CommandLine.RunAsync([.. verb, "--help"]);

        Assert.Equal(0, result.ExitCode);
        Assert.Contains("Usage:", result.Output, StringComparison.Ordinal);
        Assert.Contains("Examples:\n  millrace ", result.Output, StringComparison.Ordinal);
        Assert.Contains("Exit codes:", result.Output, StringComparison.Ordinal);
        Assert.Empty(result.Error);
    }

    [Theory]
    [InlineData("`millrace --help` shows")]
    [InlineData("There is no 'srve'. The nearest is 'serve'.\n`millrace --help` shows", "srve", "millrace.json")]
    [InlineData("`millrace run --help` shows", "run")]
    [InlineData("millrace: TARGET is missing.\n", "run")]
    [InlineData("millrace: ADDRESS is missing.\nmillrace: PATH is missing.\n", "get")]
    [InlineData("millrace: ADDRESS is missing.\n", "config", "nginx")]
    [InlineData("`run` has no option '--url'", "run", ".", "--url", "fastcgi://127.0.0.1:9000")]
    [InlineData("`run` has no option '-x'", "run", ".", "-x", "--", "--y")]
    [InlineData("`run` has no option '--url'", "run", "--url", "fastcgi://127.0.0.1:9000", ".")]
    [InlineData("is a descriptor of the server's own", "get", "fastcgi://fd:3", "/")]
    [InlineData("is a descriptor of the server's own", "config", "nginx", "fastcgi://fd:3")]
    [InlineData("is a list of addresses", "config", "nginx", "fastcgi://unix:/run/a.sock;http://127.0.0.1:5000")]
    [InlineData("is every address of the machine", "get", "fastcgi://*:9000?allow=10.0.0.5", "/")]
    [InlineData("is every address of the machine", "get", "http://+:5000", "/")]
    [InlineData("`millrace get --help` shows", "get", "fastcgi://127.0.0.1:9000")]
    [InlineData("`millrace get --help` shows", "get", "fastcgi://127.0.0.1:9000", "/", "--wrong")]
    [InlineData("There is no file 'nofile.json'", "config", "nginx", "nofile.json")]
    [InlineData("`millrace config --help` shows", "config", "nginx")]
    [InlineData("Supported: nginx", "config", "iis", "fastcgi://127.0.0.1:9000")]
    [InlineData("is not an address", "get", "127.0.0.1:9000", "/")]
    [InlineData("does not start with '/'", "get", "fastcgi://127.0.0.1:9000", "hello")]
    [InlineData("is not a header", "get", "fastcgi://127.0.0.1:9000", "/", "-H", "no colon")]
    [InlineData("is not a header", "get", "fastcgi://127.0.0.1:9000", "/", "-H", "A: b\r\nC: d")]
    [InlineData("is not a method", "get", "fastcgi://127.0.0.1:9000", "/", "-X", "GET /")]
    [InlineData("are two bodies", "get", "fastcgi://127.0.0.1:9000", "/", "--stdin", "-d", "a=b")]
    [InlineData("the method is to be PUT", "get", "fastcgi://127.0.0.1:9000", "/", "-I", "-X", "PUT")]
    [InlineData("and there is one", "get", "fastcgi://127.0.0.1:9000", "/", "--head", "--stdin")]
    [InlineData("name one of them", "get", "fastcgi://127.0.0.1:9000", "/", "-i", "-b")]
    [InlineData("--timeout is a number", "get", "fastcgi://127.0.0.1:9000", "/", "--timeout", "0")]
    [InlineData("--timeout is a number", "get", "fastcgi://127.0.0.1:9000", "/", "--timeout", "soon")]
    [InlineData("--timeout is a number", "get", "fastcgi://127.0.0.1:9000", "/", "--timeout", "NaN")]
    [InlineData("cannot be read", "get", "fastcgi://127.0.0.1:9000", "/", "-d", "@/nowhere/at/all")]
    [InlineData("There is no '/nowhere/at/all'", "run", "/nowhere/at/all")]
    [InlineData("cannot be asked for over HTTP", "get", "http://127.0.0.1:9000", "*", "-X", "OPTIONS")]
    [InlineData("is not a host name", "config", "h2o", "fastcgi://127.0.0.1:9000", "--host", " ")]
    [InlineData("is not a host name", "config", "nginx", "fastcgi://127.0.0.1:9000", "--host", "shop.example *")]
    [InlineData("backslash or a control character", "config", "haproxy", "fastcgi://unix:/run/a\nb.sock")]
    [InlineData("backslash or a control character", "config", "lighttpd", "fastcgi://unix:/run/a\\")]
    public async Task Wrong_command_line_is_answered_with_a_sentence_and_exit_code_2(string sentence, params string[] args)
    {
        var result = await CommandLine.RunAsync(args);

        Assert.Equal(2, result.ExitCode);
        Assert.Contains(sentence, result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", result.Error, StringComparison.Ordinal);
        Assert.Empty(result.Output);
    }

    [Theory]
    [InlineData("fastcgi://*:9000?allow=10.0.0.5", "server 127.0.0.1:9000;")]
    [InlineData("http://+:5000", "server 127.0.0.1:5000;")]
    [InlineData("fastcgi://0.0.0.0:9000", "server 127.0.0.1:9000;")]
    [InlineData("fastcgi://[::]:9000", "server 127.0.0.1:9000;")]
    [InlineData("fastcgi://10.0.0.0:9000", "server 10.0.0.0:9000;")]
    public async Task What_listens_on_every_address_is_reached_over_the_loopback_address(string address, string line)
    {
        var result = await CommandLine.RunAsync("config", "nginx", address);

        Assert.Equal((0, ""), (result.ExitCode, result.Error));
        Assert.Contains(line, result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Host_names_are_written_in_lower_case_as_lighttpd_compares_them()
    {
        var result = await CommandLine.RunAsync("config", "lighttpd", "fastcgi://127.0.0.1:9000", "--host", " Shop.Example  www.Shop.example ");

        Assert.Contains("shop", result.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("Shop", result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Output_that_cannot_be_written_is_a_sentence_and_exit_code_1()
    {
        using var full = new FileStream("/dev/full", FileMode.Open, FileAccess.Write, FileShare.ReadWrite, bufferSize: 0);
        using var error = new MemoryStream();
        var console = new Millrace.Command.Terminals.CommandConsole(full, error, colour: false);

        Assert.Equal(1, await Millrace.Command.MillraceCommand.InvokeAsync(["config", "nginx", "fastcgi://127.0.0.1:9000"], console));

        Assert.StartsWith("millrace: No space left on device", System.Text.Encoding.UTF8.GetString(error.ToArray()), StringComparison.Ordinal);
    }

    // systemd would take what stands behind a line feed for a line of the unit.
    [Fact]
    public async Task A_unit_is_not_written_for_a_file_whose_path_holds_a_control_character()
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("millrace-unit-");
        DirectoryInfo bad = folder.CreateSubdirectory("x\nUser=root");
        foreach (DirectoryInfo one in (DirectoryInfo[])[folder, bad])
        {
            await File.WriteAllTextAsync(Path.Combine(one.FullName, "millrace.json"), """{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a.sock" } ] }""", TestContext.Current.CancellationToken);
        }

        var good = await CommandLine.RunAsync("unit", Path.Combine(folder.FullName, "millrace.json"));
        var result = await CommandLine.RunAsync("unit", Path.Combine(bad.FullName, "millrace.json"));
        folder.Delete(recursive: true);

        Assert.Equal((0, ""), (good.ExitCode, good.Error));
        Assert.Equal((2, ""), (result.ExitCode, result.Output));
        Assert.Contains("holds a control character", result.Error, StringComparison.Ordinal);
    }
}
