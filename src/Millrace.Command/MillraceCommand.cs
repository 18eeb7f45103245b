// The command line as a whole: verbs, parsing, and the one place where a failure becomes a sentence and an exit code.

using System.CommandLine;
using System.CommandLine.Help;
using System.CommandLine.Parsing;
using Millrace.Command.Terminals;
using Millrace.Command.Verbs;

namespace Millrace.Command;

internal static class MillraceCommand
{
    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace run samples/Hello", "an unmodified ASP.NET Core project, its server swapped"),
            ("millrace get fastcgi://127.0.0.1:9000 /", "one request to a FastCGI server"),
            ("millrace serve millrace.json", "a daemon for several applications"),
            ("millrace config nginx fastcgi://127.0.0.1:9000", "the web server's side, ready to paste"),
        ],
        ExitCodes: [(ExitCode.Success, "done"), (ExitCode.Failure, "failed; the sentence on standard error says why"), (ExitCode.Usage, "the command line is wrong")]);

    /// <summary>Parses and runs one command line; never throws.</summary>
    /// <returns>The exit code of the process.</returns>
    public static async Task<int> InvokeAsync(IReadOnlyList<string> args, CommandConsole console)
    {
        var result = Create(console).Parse(args, new ParserConfiguration { ResponseFileTokenReplacer = null });
        if (result.Errors.Count > 0 && result.Action is not HelpAction and not HelpWithExamples)
        {
            string verb = result.CommandResult.Command is { Name: not "millrace" } command ? PathOf(command) + " " : "";
            console.Say($"{string.Join("\nmillrace: ", SentencesOf(result, args))}\n`millrace {verb}--help` shows how it is used.");
            return ExitCode.Usage;
        }
        try
        {
            // The verbs handle signals themselves: `run` passes them on.
            return await result.InvokeAsync(new InvocationConfiguration
            {
                Output = console.Output,
                Error = console.Error,
                EnableDefaultExceptionHandler = false,
                ProcessTerminationTimeout = null,
            });
        }
        catch (CommandFailure failure)
        {
            console.Say(failure.Message);
            return failure.ExitCode;
        }
        catch (OutputException error) when (error.ReaderHasGone)
        {
            return ExitCode.ReaderGone;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // Standard output that cannot be written to (a full disk), or a file that may not be read.
            console.Say(error.Message);
            return ExitCode.Failure;
        }
    }

    private static IEnumerable<string> SentencesOf(ParseResult result, IReadOnlyList<string> args) =>
        result.CommandResult.Command.Name == "millrace" && args is [{ Length: > 0 } word, ..] && word[0] != '-'
            ? [$"There is no '{word}'. The nearest is '{NearestName.To(word, [.. result.CommandResult.Command.Subcommands.Where(static its => !its.Hidden).Select(static its => its.Name)])}'."]
            : result.Errors.Select(SentenceOf).Distinct();

    // The library's own words name the command and not what it lacks.
    private static string SentenceOf(ParseError error) => error.SymbolResult is ArgumentResult { Tokens.Count: 0, Argument: { } argument } && !argument.Name.Any(char.IsAsciiLetterLower)
        ? $"{argument.Name} is missing."
        : error.Message;

    internal static System.CommandLine.Command Create(CommandConsole console)
    {
        var help = new HelpOption();
        help.Action = new HelpWithExamples((HelpAction)help.Action!);
        var root = new System.CommandLine.Command("millrace", "FastCGI and HTTP/1.1 server for ASP.NET Core and plain handlers.")
        {
            help,
            new VersionOption(),
            RunVerb.Create(console),
            GetVerb.Create(console),
            ConfigVerb.Create(console),
            ServeVerb.Create(console),
            CheckVerb.Create(console),
            UnitVerb.Create(console),
            PoolVerb.Create(console),
            RouteVerb.Create(console),
            PoolHostVerb.Create(console),
            StacksVerb.Create(console),
            TakeoverVerb.Create(console),
        };
        foreach (var verb in DaemonVerbs.Create(console))
        {
            root.Add(verb);
        }
        root.Add(CompletionVerb.Create(console, root));
        return root.WithHelp(s_help);
    }

    private static string PathOf(System.CommandLine.Command command)
    {
        var parent = command.Parents.OfType<System.CommandLine.Command>().FirstOrDefault();
        return parent is { Name: not "millrace" } ? PathOf(parent) + " " + command.Name : command.Name;
    }
}
