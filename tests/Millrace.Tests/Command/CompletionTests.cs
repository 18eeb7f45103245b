// What `millrace completion` prints: every verb, option and argument of the command line is in the script of every shell, by itself. That of bash is loaded and asked in a real
// bash; with keys that are pressed, and beside a daemon, all of them are in Millrace.Interop/Command.

using System.CommandLine;
using System.Diagnostics;
using Millrace.Command;
using Millrace.Command.Completing;
using Millrace.Command.Terminals;

namespace Millrace.Tests.Command;

public sealed class CompletionTests : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-completion-");

    public void Dispose() => _folder.Delete(recursive: true);

    [Theory]
    [InlineData("bash", "{0}) options=", "{1}")]
    [InlineData("zsh", "{0}) _arguments ", "{1}")]
    [InlineData("fish", "-a {0} -d ", "-n '__millrace_verb {0}'[^\n]* (-l {2}|-s '{2}') ")]
    public async Task Every_verb_and_each_of_its_options_is_in_the_script_of_every_shell(string shell, string verbAs, string optionAs)
    {
        string script = (await CommandLine.RunAsync("completion", shell)).Output;
        System.CommandLine.Command[] verbs = [.. Tree().Subcommands.Where(static verb => !verb.Hidden)];

        Assert.True(verbs.Length > 15);
        foreach (var verb in verbs)
        {
            string line = script.Split('\n').First(line => line.Contains(string.Format(null, verbAs, verb.Name), StringComparison.Ordinal));
            foreach (string option in verb.Options.SelectMany(static option => option.Aliases.Prepend(option.Name)).Append("--help"))
            {
                Assert.Matches(shell == "fish" ? string.Format(null, optionAs, verb.Name, option, option.TrimStart('-')) : System.Text.RegularExpressions.Regex.Escape(option), shell == "fish" ? script : line);
            }
        }
        Assert.DoesNotContain("route", script, StringComparison.Ordinal);
    }

    [Fact]
    public void What_stands_at_every_place_is_known()
    {
        foreach (var verb in Tree().Subcommands.Where(static verb => !verb.Hidden))
        {
            IEnumerable<(string Name, bool HasWords)> places =
            [
                .. verb.Arguments.Select(static argument => (argument.Name, argument.GetCompletions(System.CommandLine.Completions.CompletionContext.Empty).Any())),
                .. verb.Options.Where(static option => option.ValueType != typeof(bool)).Select(static option => (option.Name, option.GetCompletions(System.CommandLine.Completions.CompletionContext.Empty).Any())),
            ];
            Assert.All(places, place => Assert.True(place.HasWords || CompletedVerb.KindOf(verb.Name, place.Name) is not null, $"What stands at {place.Name} of `millrace {verb.Name}`? Say so in CompletedVerb.cs."));
        }
    }

    [Fact]
    public void A_verb_that_is_added_is_completed()
    {
        var root = Tree();
        root.Add(new System.CommandLine.Command("juggle", "Throw \"balls\" [up]: it's fun.") { new Option<int>("--balls", "-b"), new Argument<string>("APP") });
        var verbs = CompletedVerb.AllOf(root);

        string[] scripts = [BashScript.Write(verbs, []), ZshScript.Write(verbs, []), FishScript.Write(verbs, [])];

        Assert.Contains("juggle) options='--balls -b --help -h'", scripts[0], StringComparison.Ordinal);
        Assert.Contains("'juggle 0') kind=application", scripts[0], StringComparison.Ordinal);
        Assert.Contains("""'juggle:Throw "balls" [up]: it'\''s fun'""", scripts[1], StringComparison.Ordinal);
        Assert.Contains(@"-a juggle -d 'Throw ""balls"" [up]: it\'s fun'", scripts[2], StringComparison.Ordinal);
        Assert.Equal("juggle\n", Complete(scripts[0], "millrace jug"));
    }

    [Theory]
    [InlineData("millrace hol", "hold")]
    [InlineData("millrace --v", "--version")]
    [InlineData("millrace re", "restart release reload")]
    [InlineData("millrace run --u", "--urls")]
    [InlineData("millrace run --environment ", "Development Production Staging")]
    [InlineData("millrace run --environment=S", "Staging")]
    [InlineData("millrace run ", "b.dll c.csproj sub")]
    [InlineData("millrace run --environment Staging s", "sub")]
    [InlineData("millrace run b.dll -- a", "a.json")]
    [InlineData("millrace serve ", "a.json sub")]
    [InlineData("millrace hold ", "shop other")]
    [InlineData("millrace hold s", "shop")]
    [InlineData("millrace hold --page a.json s", "shop")]
    [InlineData("millrace hold --control /its/own ", "its")]
    [InlineData("millrace hold --control=/its/own ", "its")]
    [InlineData("millrace hold shop ", "")]
    [InlineData("millrace pool rec", "recycle")]
    [InlineData("millrace pool hold ", "php reports")]
    [InlineData("millrace pool hold --control /its/own p", "php")]
    [InlineData("millrace scale shop ", "")]
    [InlineData("millrace logs -n ", "")]
    [InlineData("millrace logs -f s", "shop")]
    [InlineData("millrace get h", "http://unix:/ http://127.0.0.1: http://127.0.0.1:81")]
    [InlineData("millrace get http://127.0.0.1:8", "81")]
    [InlineData("millrace get 'http://127.0.0.1:8", "http://127.0.0.1:81")]
    [InlineData("millrace get http://unix:s", "sub/")]
    [InlineData("millrace get http://unix:sub/", "sub/x.sock")]
    [InlineData("millrace run --urls=fastcgi://unix:sub/", "sub/x.sock")]
    [InlineData("millrace get -X PA", "PATCH")]
    [InlineData("millrace get -v -X GET http://unix:sub/x.sock / --bo", "--body-only")]
    [InlineData("millrace config n", "nginx")]
    [InlineData("millrace config nginx a", "a.json")]
    [InlineData("millrace completion ", "bash fish zsh")]
    [InlineData("millrace nothing ", "")]
    [InlineData("millrace status --j | nothing else", "--json", 19)]
    public async Task In_bash(string typed, string offered, int? cursor = null)
    {
        foreach (string file in (string[])["a.json", "b.dll", "c.csproj", "d.txt", "sub/x.sock"])
        {
            Directory.CreateDirectory(Path.Combine(_folder.FullName, Path.GetDirectoryName(file)!));
            await File.WriteAllTextAsync(Path.Combine(_folder.FullName, file), "");
        }

        string printed = Complete((await CommandLine.RunAsync("completion", "bash")).Output, typed, cursor);

        Assert.Equal(offered.Split(' ', StringSplitOptions.RemoveEmptyEntries).Order(StringComparer.Ordinal), printed.Split('\n', StringSplitOptions.RemoveEmptyEntries).Order(StringComparer.Ordinal));
    }

    // Whoever serves a control socket may be another user than the one who presses the key.
    [Theory]
    [InlineData("millrace stop ")]
    [InlineData("millrace stop --control /its/own ")]
    [InlineData("millrace get http")]
    [InlineData("millrace get ")]
    public async Task What_a_daemon_answers_is_never_run_and_never_offered_where_a_shell_could_run_it(string typed)
    {
        string trap = Path.Combine(_folder.FullName, "trap");

        string printed = Complete((await CommandLine.RunAsync("completion", "bash")).Output, typed, answers: [$"$(touch {trap})", $"`touch {trap}`", $"http://a/$(touch${{IFS}}{trap})", "a;b", "a b", "$HOME", "*", "~root", "{a,b}", "a\\b"]);

        Assert.False(File.Exists(trap));
        Assert.All(printed.Split('\n', StringSplitOptions.RemoveEmptyEntries), static word => Assert.True(word.IndexOfAny([.. "$`;*~{\\ "]) < 0, word));
        Assert.DoesNotContain("trap", printed, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Name_of_a_socket_is_quoted()
    {
        await File.WriteAllTextAsync(Path.Combine(_folder.FullName, "a$(b).sock"), "");

        string printed = Complete((await CommandLine.RunAsync("completion", "bash")).Output, $"millrace get http://unix:{_folder.FullName}/");

        Assert.Contains("a\\$\\(b\\).sock", printed, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Where_no_daemon_is_there_is_nothing_to_offer_and_nothing_is_said()
    {
        var result = await CommandLine.RunAsync("completion", "applications", "--control", Path.Combine(_folder.FullName, "none.sock"));

        Assert.Equal((0, "", ""), (result.ExitCode, result.Output, result.Error));
    }

    [Fact]
    public async Task Another_shell_is_refused_with_a_sentence()
    {
        var result = await CommandLine.RunAsync("completion", "csh");

        Assert.Equal((2, "millrace: There is no script for 'csh'. Supported: bash, zsh, fish.\n"), (result.ExitCode, result.Error));
    }

    private static System.CommandLine.Command Tree() => MillraceCommand.Create(new CommandConsole(Stream.Null, Stream.Null, colour: false));

    // The daemon is played by a function of the command's name.
    private string Complete(string script, string typed, int? cursor = null, string[]? answers = null)
    {
        const string Asks = """
            shopt -u progcomp_alias 2>/dev/null
            source /dev/stdin
            answers=("${@:3}")
            millrace() {
                [ ${#answers[@]} -gt 0 ] && { printf '%s\n' "${answers[@]}"; return; }
                case "$*" in
                    'completion applications') printf '%s\n' shop other ;;
                    'completion applications --control /its/own') echo its ;;
                    'completion pools') printf '%s\n' php reports ;;
                    'completion pools --control /its/own') echo php ;;
                    'completion addresses') echo http://127.0.0.1:81 ;;
                    *) echo "unexpected: $*" ;;
                esac
            }
            complete -p millrace >&2
            COMP_LINE=$1 COMP_POINT=$2 COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
            _millrace
            [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
            """;
        var start = new ProcessStartInfo("bash", ["--norc", "-c", Asks, "bash", typed, (cursor ?? typed.Length).ToString(System.Globalization.CultureInfo.InvariantCulture), .. answers ?? []])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            WorkingDirectory = _folder.FullName,
        };
        using var bash = Process.Start(start)!;
        bash.StandardInput.Write(script);
        bash.StandardInput.Close();
        string printed = bash.StandardOutput.ReadToEnd();
        Assert.Equal("complete -F _millrace millrace\n", bash.StandardError.ReadToEnd());
        bash.WaitForExit();
        return printed;
    }
}
