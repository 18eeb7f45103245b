// Completion for fish: one line for each option and each argument of a verb.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Completing;

internal static class FishScript
{
    private const string Head = """
        # Completion of the command millrace for fish; made by `millrace completion fish`.
        # For one shell:  millrace completion fish | source
        # For good:       millrace completion fish > ~/.config/fish/completions/millrace.fish

        # The verb, and then as many words as stand behind it: without options, and what follows them.
        function __millrace_words
            set -l words (commandline -opc)
            set -e words[1]
            set -l verb
            set -l skip
            set -l dashes
            for word in $words
                if test -n "$skip"
                    set skip
                else if test -z "$dashes"; and test "$word" = --
                    set dashes 1
                else if test -z "$dashes"; and string match -q -- '-*' $word
                    contains -- "$verb $word" $__millrace_valued; and set skip 1
                else
                    test -z "$verb"; and set verb $word
                    echo $word
                end
            end
        end

        # Whether the cursor is at a place behind a verb, counted from 0; `more`: or further behind it.
        function __millrace_at --argument-names verb place more
            set -l words (__millrace_words)
            test "$words[1]" = "$verb"; or return 1
            set -l now (math (count $words) - 1)
            test $now -eq $place; or test -n "$more" -a $now -ge $place
        end

        function __millrace_verb --argument-names verb
            set -l words (__millrace_words)
            test "$words[1]" = "$verb"
        end

        # Asks the daemon, and has no answer where there is none.
        function __millrace_ask --argument-names what
            set -l words (commandline -opc)
            set -l control
            if set -l at (contains -i -- --control $words); and test $at -lt (count $words)
                set control --control $words[(math $at + 1)]
            end
            $words[1] completion $what $control 2>/dev/null
        end

        function __millrace_addresses
            printf '%s\n' fastcgi://unix:/ fastcgi://127.0.0.1: http://unix:/ http://127.0.0.1:
            __millrace_ask addresses
            set -l word (commandline -ct | string trim -l -c "'\"")
            if string match -q -- '*://unix:*' $word
                set -l before (string replace -r -- '(://unix:).*' '$1' $word)
                for found in (string replace -- $before '' $word)*
                    test -d $found; and set found $found/
                    echo $before$found
                end
            end
        end

        complete -c millrace -f

        """;

    public static string Write(IReadOnlyList<CompletedVerb> verbs, IReadOnlyList<CompletedOption> before)
    {
        var text = new StringBuilder(Head);
        string[] valued = [.. verbs.SelectMany(static verb => verb.Options.Where(static option => option.Value is not null).SelectMany(option => option.Names.Select(name => $"'{verb.Name} {name}'")))];
        text.Append(CultureInfo.InvariantCulture, $"set -g __millrace_valued {string.Join(' ', valued)}\n");
        foreach (var option in before)
        {
            text.Append(Line("__millrace_verb ''", option));
        }
        foreach (var verb in verbs)
        {
            text.Append(CultureInfo.InvariantCulture, $"\ncomplete -c millrace -n \"__millrace_verb ''\" -a {verb.Name} -d {Quoted(verb.Summary)}\n");
            foreach (var option in verb.Options)
            {
                text.Append(Line($"__millrace_verb {verb.Name}", option));
            }
            for (int i = 0; i < verb.Arguments.Count; i++)
            {
                string at = string.Create(CultureInfo.InvariantCulture, $"__millrace_at {verb.Name} {i}{(verb.Arguments[i].Repeats ? " more" : "")}");
                text.Append(Offer(verb.Arguments[i]) is { Length: > 0 } offer ? $"complete -c millrace -n {Quoted(at)}{offer}\n" : "");
            }
        }
        return text.ToString();
    }

    private static string Line(string condition, CompletedOption option) =>
        $"complete -c millrace -n {(condition.Contains('\'', StringComparison.Ordinal) ? $"\"{condition}\"" : Quoted(condition))} {string.Join(' ', option.Names.Select(Name))}{(option.Value is { } value ? (Offer(value).Contains("-F", StringComparison.Ordinal) ? " -r" : " -x") + Offer(value) : "")} -d {Quoted(option.Summary)}\n";

    private static string Name(string name) => name.StartsWith("--", StringComparison.Ordinal) ? $"-l {name[2..]}" : $"-s {Quoted(name[1..])}";

    private static string Offer(CompletedValue value) => value.Kind switch
    {
        ValueKind.Words => $" -a {Quoted(string.Join(' ', value.Words))}",
        ValueKind.File or ValueKind.ServeFile or ValueKind.Target => " -F",
        ValueKind.Folder => " -a '(__fish_complete_directories)'",
        ValueKind.Address => " -a '(__millrace_addresses)'",
        ValueKind.AddressOrFile => " -F -a '(__millrace_addresses)'",
        ValueKind.Application => " -a '(__millrace_ask applications)'",
        ValueKind.Pool => " -a '(__millrace_ask pools)'",
        _ => "",
    };

    private static string Quoted(string text) => $"'{text.Replace("\\", "\\\\", StringComparison.Ordinal).Replace("'", "\\'", StringComparison.Ordinal)}'";
}
