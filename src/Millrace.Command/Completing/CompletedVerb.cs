// The command line as scripts of shells complete it: read from the verbs themselves, so that one that is added is completed. What stands at a place is known by
// the name that the help gives it (APP, FILE), or by the words that are allowed there.

using System.CommandLine;
using System.CommandLine.Completions;
using System.Text.RegularExpressions;

namespace Millrace.Command.Completing;

/// <summary>What may stand at a place of the command line.</summary>
internal enum ValueKind
{
    /// <summary>Nothing that could be guessed.</summary>
    Anything,

    /// <summary>One of the words that are given with it.</summary>
    Words,

    File,

    Folder,

    /// <summary>A file of `millrace serve`, or a folder with one.</summary>
    ServeFile,

    /// <summary>What `millrace run` takes.</summary>
    Target,

    /// <summary>Where something listens.</summary>
    Address,

    /// <summary>The same, or a file of `millrace serve`.</summary>
    AddressOrFile,

    /// <summary>The name of one that a running daemon has.</summary>
    Application,

    /// <summary>The name of a pool of workers of a process that runs.</summary>
    Pool,
}

/// <param name="Name">As the help calls it, such as FILE.</param>
/// <param name="Kind">What stands there.</param>
/// <param name="Words">Those of <see cref="ValueKind.Words"/>.</param>
/// <param name="Repeats">Whether there may be more of them.</param>
internal sealed record CompletedValue(string Name, ValueKind Kind, IReadOnlyList<string> Words, bool Repeats);

/// <param name="Names">All of them, with their dashes.</param>
/// <param name="Summary">What it does, in a line.</param>
/// <param name="Value">What follows it; null for a switch.</param>
internal sealed record CompletedOption(IReadOnlyList<string> Names, string Summary, CompletedValue? Value);

/// <param name="Name">The verb.</param>
/// <param name="Summary">What it does, in a line.</param>
/// <param name="Options">In the order of the help.</param>
/// <param name="Arguments">Without the options.</param>
internal sealed partial record CompletedVerb(string Name, string Summary, IReadOnlyList<CompletedOption> Options, IReadOnlyList<CompletedValue> Arguments)
{
    private const int SummaryMax = 90;

    // By the verb and the name of what stands there, or by that name alone; an option's in lower case.
    private static readonly Dictionary<string, ValueKind> s_kinds = new(StringComparer.Ordinal)
    {
        ["APP"] = ValueKind.Application,
        ["TARGET"] = ValueKind.Target,
        ["ADDRESS"] = ValueKind.Address,
        ["config ADDRESS"] = ValueKind.AddressOrFile,
        ["FILE"] = ValueKind.ServeFile,
        ["PATH"] = ValueKind.Anything,
        ["ARGUMENTS"] = ValueKind.File,
        ["POOL"] = ValueKind.Pool,
        ["N"] = ValueKind.Anything,
        ["--urls"] = ValueKind.Address,
        ["--control"] = ValueKind.File,
        ["--page"] = ValueKind.File,
        ["--queue"] = ValueKind.Anything,
        ["--script"] = ValueKind.File,
        ["--root"] = ValueKind.Folder,
        ["--output"] = ValueKind.File,
        ["--header"] = ValueKind.Anything,
        ["--data"] = ValueKind.Anything,
        ["--param"] = ValueKind.Anything,
        ["--timeout"] = ValueKind.Anything,
        ["--lines"] = ValueKind.Anything,
        ["--host"] = ValueKind.Anything,
        ["--path"] = ValueKind.Anything,
    };

    /// <summary>All verbs that the help names.</summary>
    public static IReadOnlyList<CompletedVerb> AllOf(System.CommandLine.Command root)
    {
        CompletedOption[] everywhere = [.. root.Options.Where(static option => option.Recursive && !option.Hidden).Select(option => Read("", option))];
        return
        [
            .. root.Subcommands.Where(static verb => !verb.Hidden).Select(verb => new CompletedVerb(
                verb.Name,
                Short(verb.Description),
                [.. verb.Options.Where(static option => !option.Hidden).Select(option => Read(verb.Name, option)), .. everywhere],
                [.. verb.Arguments.Where(static argument => !argument.Hidden).Select(argument => Read(verb.Name, argument))])),
        ];
    }

    /// <summary>What stands in front of a verb, or in its place.</summary>
    public static IReadOnlyList<CompletedOption> OptionsOf(System.CommandLine.Command root) => [.. root.Options.Where(static option => !option.Hidden).Select(option => Read("", option))];

    /// <summary>What stands at a place; null where nobody has said so.</summary>
    internal static ValueKind? KindOf(string verb, string name) =>
        s_kinds.TryGetValue($"{verb} {name}", out var kind) || s_kinds.TryGetValue(name, out kind) ? kind : null;

    private static CompletedOption Read(string verb, Option option) => new(
        [.. option.Aliases.Prepend(option.Name).Distinct().Where(static name => name.StartsWith('-') && name != "-?")],
        Short(option.Description),
        option.ValueType == typeof(bool) || option.Arity.MaximumNumberOfValues == 0 ? null : ValueOf(verb, option.Name, option.HelpName ?? "VALUE", option.GetCompletions(CompletionContext.Empty)));

    private static CompletedValue Read(string verb, Argument argument) =>
        ValueOf(verb, argument.Name, argument.Name, argument.GetCompletions(CompletionContext.Empty)) with { Repeats = argument.Arity.MaximumNumberOfValues > 1 };

    private static CompletedValue ValueOf(string verb, string name, string shown, IEnumerable<CompletionItem> completions)
    {
        string[] words = [.. completions.Select(static completion => completion.Label)];
        return new CompletedValue(shown, words.Length > 0 ? ValueKind.Words : KindOf(verb, name) ?? ValueKind.Anything, words, Repeats: false);
    }

    // The first sentence, or what of it there is room for.
    private static string Short(string? description)
    {
        string text = SentenceEnd().Split(description ?? "")[0];
        return text.Length <= SummaryMax ? text : text[..text.LastIndexOf(' ', SummaryMax)] + " ...";
    }

    [GeneratedRegex(@"\. (?=[\p{Lu}`])|\.$|; | \(|, e\.g\.")]
    private static partial Regex SentenceEnd();
}
