// `millrace completion SHELL`: prints what has a shell complete the command line. The scripts have verbs and options in themselves, so that a TAB does not wait for a
// process of .NET; what only a daemon knows they ask for with the verbs below this one, which no help names.

using System.CommandLine;
using Millrace.Command.Completing;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class CompletionVerb
{
    // Somebody has pressed a key. Where there is no daemon that is known at once; one on a busy machine takes its time.
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    private static readonly Dictionary<string, Func<IReadOnlyList<CompletedVerb>, IReadOnlyList<CompletedOption>, string>> s_shells = new(StringComparer.Ordinal)
    {
        ["bash"] = BashScript.Write,
        ["zsh"] = ZshScript.Write,
        ["fish"] = FishScript.Write,
    };

    private static readonly Help s_help = new(
        Examples:
        [
            ("source <(millrace completion bash)", "for this shell"),
            ("millrace completion bash > ~/.local/share/bash-completion/completions/millrace", "for all that come"),
            ("millrace completion zsh > /usr/local/share/zsh/site-functions/_millrace", "the same for zsh, and everybody"),
            ("millrace completion fish > ~/.config/fish/completions/millrace.fish", "for fish"),
        ],
        ExitCodes: [(ExitCode.Success, "printed"), (ExitCode.Usage, "the command line is wrong, or there is no script for the shell")]);

    /// <param name="console">Where to print.</param>
    /// <param name="root">The whole command line.</param>
    public static System.CommandLine.Command Create(CommandConsole console, System.CommandLine.Command root)
    {
        var shell = new Argument<string>("SHELL") { Description = "bash, zsh or fish" };
        shell.CompletionSources.Add([.. s_shells.Keys]);
        var command = new System.CommandLine.Command("completion", "Print what has a shell complete verbs, options, files and names of applications.")
        {
            shell,
            CreateAsked(console, "applications", static async (control, ct) => (await StatusAsync(control, ct)).Apps.Select(static app => app.Name)),
            CreateAsked(console, "addresses", static async (control, ct) => (await StatusAsync(control, ct)).Apps.SelectMany(static app => app.Urls).Where(static url => url.Contains("://", StringComparison.Ordinal))),
            CreateAsked(console, "pools", PoolVerb.NamesAsync),
        };
        command.SetAction(result =>
        {
            string name = result.GetRequiredValue(shell);
            var write = s_shells.GetValueOrDefault(name) ?? throw CommandFailure.Usage($"There is no script for '{name}'. Supported: {string.Join(", ", s_shells.Keys)}.");
            console.Output.Write(write(CompletedVerb.AllOf(root), CompletedVerb.OptionsOf(root)));
            return ExitCode.Success;
        });
        return command.WithHelp(s_help);
    }

    // The daemon may be another user's: a shell is offered nothing that it could take for more than a word.
    private static bool IsPlain(string word) => word.Length > 0 && word[0] != '-' && word.All(static c => char.IsAsciiLetterOrDigit(c) || "_.:/@%+,-[]".Contains(c, StringComparison.Ordinal));

    private static async Task<DaemonStatus> StatusAsync(string? control, CancellationToken ct)
    {
        using var client = DaemonVerbs.Connect(control);
        return await client.StatusAsync(ct, withTraffic: false);
    }

    // Words, a line each; none where no daemon answers.
    private static System.CommandLine.Command CreateAsked(CommandConsole console, string what, Func<string?, CancellationToken, Task<IEnumerable<string>>> ask)
    {
        var control = DaemonVerbs.ControlOption();
        var command = new System.CommandLine.Command(what, $"The {what} of a running daemon, for scripts of shells.") { control };
        command.Hidden = true;
        command.SetAction(async (result, ct) =>
        {
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
            limit.CancelAfter(s_patience);
            try
            {
                foreach (string word in (await ask(result.GetValue(control), limit.Token)).Where(IsPlain).Distinct())
                {
                    console.Output.WriteLine(word);
                }
            }
            catch (Exception error) when (error is CommandFailure or OperationCanceledException)
            {
                // There is nothing to offer.
            }
            return ExitCode.Success;
        });
        return command;
    }
}
