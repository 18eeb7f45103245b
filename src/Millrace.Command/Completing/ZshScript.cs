// Completion for zsh: what _arguments needs to know of each verb.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Completing;

internal static class ZshScript
{
    private const string Head = """
        #compdef millrace
        # Completion of the command millrace for zsh; made by `millrace completion zsh`.
        # For one shell:  source <(millrace completion zsh)
        # For good:       millrace completion zsh > a folder of $fpath, named _millrace

        # Asks the daemon, and has no answer where there is none.
        _millrace_ask() {
            local -a control
            (( ${+opt_args[--control]} )) && control=(--control ${(Q)opt_args[--control]})
            _call_program millrace ${(q)_millrace_program} completion $1 ${(q)control}
        }

        _millrace_application() {
            local -a names=(${(f)"$(_millrace_ask applications 2>/dev/null)"})
            _wanted applications expl application compadd -a names
        }

        _millrace_pool() {
            local -a names=(${(f)"$(_millrace_ask pools 2>/dev/null)"})
            _wanted pools expl pool compadd -a names
        }

        _millrace_servefile() { _files -g '*.json(-.)' }

        _millrace_target() { _files -g '*.(dll|csproj|fsproj|vbproj)(-.)' }

        _millrace_address() {
            local -a known
            if compset -P '*://unix:'; then
                _files -g '*(=,-/)'
                return
            fi
            known=(${(f)"$(_millrace_ask addresses 2>/dev/null)"})
            _wanted addresses expl address compadd -S '' fastcgi://unix:/ fastcgi://127.0.0.1: http://unix:/ http://127.0.0.1: $known
        }

        _millrace_addressorfile() { _alternative 'addresses:address:_millrace_address' 'files:file:_millrace_servefile' }

        _millrace() {
            local context state state_descr line expl _millrace_program=$words[1]
            typeset -A opt_args
            _arguments -C \

        """;

    public static string Write(IReadOnlyList<CompletedVerb> verbs, IReadOnlyList<CompletedOption> before)
    {
        var text = new StringBuilder(Head);
        foreach (string spec in before.SelectMany(Specs))
        {
            text.Append(CultureInfo.InvariantCulture, $"        {spec} \\\n");
        }
        text.Append("""
                    '1: :->verb' \
                    '*:: :->behind' && return
                case $state in
                    verb)
                        local -a verbs=(

            """);
        foreach (var verb in verbs)
        {
            text.Append(CultureInfo.InvariantCulture, $"                {Quoted($"{verb.Name}:{verb.Summary}")}\n");
        }
        text.Append("""
                        )
                        _describe -t commands command verbs
                        ;;
                    behind)
                        case $words[1] in

            """);
        foreach (var verb in verbs)
        {
            string[] specs = [.. verb.Options.SelectMany(Specs), .. verb.Arguments.Select(static (value, i) => Quoted(string.Create(CultureInfo.InvariantCulture, $"{(value.Repeats ? "*" : i + 1)}:{Plain(value.Name)}:{Action(value)}")))];
            text.Append(CultureInfo.InvariantCulture, $"                {verb.Name}) _arguments {string.Join(" ", specs)} ;;\n");
        }
        return text.Append("""
                        esac
                        ;;
                esac
            }

            if [[ $funcstack[1] == _millrace ]]; then
                _millrace "$@"
            else
                compdef _millrace millrace
            fi

            """).ToString();
    }

    // One for each of its names, which exclude one another: (-X)--request=[...]:METHOD:(GET POST)
    private static IEnumerable<string> Specs(CompletedOption option) => option.Names.Select(name =>
    {
        string others = string.Join(' ', option.Names.Where(other => other != name));
        string value = option.Value is { } its ? $":{Plain(its.Name)}:{Action(its)}" : "";
        return Quoted($"{(others.Length > 0 ? $"({others})" : "")}{name}{(value.Length > 0 && name.StartsWith("--", StringComparison.Ordinal) ? "=" : "")}[{Plain(option.Summary)}]{value}");
    });

    private static string Action(CompletedValue value) => value.Kind switch
    {
        ValueKind.Anything => " ",
        ValueKind.Words => $"({string.Join(' ', value.Words)})",
        ValueKind.File => "_files",
        ValueKind.Folder => "_files -/",
        var kind => "_millrace_" + kind.ToString().ToLowerInvariant(),
    };

    private static string Plain(string text) => text.Replace("\\", "\\\\", StringComparison.Ordinal).Replace(":", "\\:", StringComparison.Ordinal).Replace("[", "\\[", StringComparison.Ordinal).Replace("]", "\\]", StringComparison.Ordinal);

    private static string Quoted(string text) => $"'{text.Replace("'", "'\\''", StringComparison.Ordinal)}'";
}
