// What the scripts of `millrace completion` do when somebody presses TAB, in each of the shells, beside a daemon that runs. Keys go in through a terminal.

using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class CompletionTests : IDisposable
{
    private readonly TemporaryDirectory _directory = new("completion");

    public void Dispose() => _directory.Dispose();

    [Theory]
    [InlineData("bash", "bash --norc --noprofile -i", "PS1=")]
    [InlineData("zsh", "zsh -f -i", "PS1=; autoload -U compinit; compinit -u -D")]
    public async Task Tab_completes_verbs_options_files_and_what_the_daemon_has(string shell, string start, string before)
    {
        string control = await PrepareAsync(shell);
        await using var daemon = CommandProcess.Millrace("serve", Path.Combine(_directory.Path, "millrace.json"));
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        await daemon.WaitForOutputAsync("php: generation 1 serves");

        // What has been completed is printed, word for word.
        string keys = $$"""
            {{before}}; cd {{_directory.Path}}; source ./script
            printed() { printf 'GOT'; printf '<%s>' "$@"; echo; }
            millrace() { if [[ $1 == completion ]]; then command millrace "$@"; else printed "$@"; fi; }
            millrace hol{TAB}--control run/control.sock sh{TAB}--pa{TAB}page.h{TAB}X
            millrace pool rec{TAB}--control run/control.sock ph{TAB}X
            millrace config ng{TAB}fastcgi://u{TAB}{{_directory.Path[1..]}}/sh{TAB}X
            millrace serve mill{TAB}X
            millrace get --body-o{TAB}http://unix:{{_directory.Path}}/fol{TAB}X
            exit

            """;
        await System.IO.File.WriteAllTextAsync(Path.Combine(_directory.Path, "keys"), keys.Replace("{TAB}", "\t", StringComparison.Ordinal));
        // Nobody hangs up while the shell reads.
        await using var terminal = CommandProcess.StartProgram(
            "env", $"PATH={_directory.Path}/bin:{Environment.GetEnvironmentVariable("PATH")}", "bash", "-c", $"cd {_directory.Path}; exec 9< <(cat keys; exec sleep 60 2>&-); script -q -c '{start}' /dev/null <&9; kill $!");
        await terminal.WaitForExitAsync();

        Assert.Equal(
            [
                $"GOT<hold><--control><{control}><shop><--page><page.html><X>",
                $"GOT<pool><recycle><--control><{control}><php><X>",
                $"GOT<config><nginx><fastcgi://unix:{_directory.Path}/shop.sock><X>",
                "GOT<serve><millrace.json><X>",
                $"GOT<get><--body-only><http://unix:{_directory.Path}/folder/X>",
            ],
            terminal.Output.Split('\n').Where(static line => line.Contains("GOT<", StringComparison.Ordinal)).Select(static line => line[line.IndexOf("GOT<", StringComparison.Ordinal)..].TrimEnd('\r').Replace("--page=", "--page><", StringComparison.Ordinal)));
    }

    [Theory]
    [InlineData("millrace hol", "hold")]
    [InlineData("millrace hold --control run/control.sock ", "php shop")]
    [InlineData("millrace pool hold --control run/control.sock ", "php")]
    [InlineData("millrace run --environment ", "Development Production Staging")]
    [InlineData("millrace logs --f", "--follow")]
    [InlineData("millrace config nginx page", "page.html")]
    [InlineData("millrace get http://unix:fol", "http://unix:folder/")]
    public async Task Fish_offers(string typed, string offered)
    {
        await PrepareAsync("fish");
        await using var daemon = CommandProcess.Millrace("serve", Path.Combine(_directory.Path, "millrace.json"));
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        await daemon.WaitForOutputAsync("php: generation 1 serves");

        await using var fish = CommandProcess.StartProgram(
            "env", $"PATH={_directory.Path}/bin:{Environment.GetEnvironmentVariable("PATH")}", "fish", "--no-config", "-c", $"cd {_directory.Path}; source script; complete -C '{typed}'");
        Assert.Equal(0, await fish.WaitForExitAsync());

        Assert.Equal(offered.Split(' '), fish.Output.Split('\n', StringSplitOptions.RemoveEmptyEntries).Select(static line => line.Split('\t')[0]));
        Assert.Empty(fish.Error);
    }

    // The command under its name, its script, and what there is to be completed.
    private async Task<string> PrepareAsync(string shell)
    {
        string command = Path.Combine(Directory.CreateDirectory(Path.Combine(_directory.Path, "bin")).FullName, "millrace");
        await System.IO.File.WriteAllTextAsync(command, $"#!/bin/sh\nexec dotnet {CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")} \"$@\"\n");
        await using (var executable = CommandProcess.StartProgram("chmod", "+x", command))
        {
            Assert.Equal(0, await executable.WaitForExitAsync());
        }
        Directory.CreateDirectory(Path.Combine(_directory.Path, "folder"));
        await System.IO.File.WriteAllTextAsync(Path.Combine(_directory.Path, "page.html"), "");
        await System.IO.File.WriteAllTextAsync(Path.Combine(_directory.Path, "script"), (await CommandProcess.RunAsync("completion", shell)).Output);
        await System.IO.File.WriteAllTextAsync(Path.Combine(_directory.Path, "millrace.json"), $$"""
            { "control": "{{_directory.Path}}/run/control.sock", "snapshots": "{{_directory.Path}}/snapshots", "apps": [ { "name": "shop", "target": "{{CommandProcess.AssemblyOf("samples/Hello", "Hello")}}", "urls": "fastcgi://unix:{{_directory.Path}}/shop.sock" } ],
              "pools": [ { "name": "php", "urls": "fastcgi://unix:{{_directory.Path}}/php.sock", "min": 1 } ] }
            """);
        return "run/control.sock";
    }
}
