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
    [InlineData("`millrace --help` shows", "fly")]
    [InlineData("`millrace run --help` shows", "run")]
    [InlineData("`millrace get --help` shows", "get", "fastcgi://127.0.0.1:9000")]
    [InlineData("`millrace get --help` shows", "get", "fastcgi://127.0.0.1:9000", "/", "--wrong")]
    [InlineData("`millrace config --help` shows", "config", "nginx")]
    [InlineData("Supported: nginx", "config", "iis", "fastcgi://127.0.0.1:9000")]
    [InlineData("is not an address", "get", "127.0.0.1:9000", "/")]
    [InlineData("does not start with '/'", "get", "fastcgi://127.0.0.1:9000", "hello")]
    [InlineData("is not a header", "get", "fastcgi://127.0.0.1:9000", "/", "-H", "no colon")]
    [InlineData("is not a header", "get", "fastcgi://127.0.0.1:9000", "/", "-H", "A: b\r\nC: d")]
    [InlineData("is not a method", "get", "fastcgi://127.0.0.1:9000", "/", "-X", "GET /")]
    [InlineData("--timeout is a number", "get", "fastcgi://127.0.0.1:9000", "/", "--timeout", "0")]
    [InlineData("cannot be read", "get", "fastcgi://127.0.0.1:9000", "/", "-d", "@/nowhere/at/all")]
    [InlineData("There is no '/nowhere/at/all'", "run", "/nowhere/at/all")]
    public async Task Wrong_command_line_is_answered_with_a_sentence_and_exit_code_2(string sentence, params string[] args)
    {
        var result = await CommandLine.RunAsync(args);

        Assert.Equal(2, result.ExitCode);
        Assert.Contains(sentence, result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", result.Error, StringComparison.Ordinal);
        Assert.Empty(result.Output);
    }
}
