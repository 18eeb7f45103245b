// Completion for bash. One function, which needs nothing but bash 4.4: a table of the verbs, made from the command line, and the lines that look in it.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Completing;

internal static class BashScript
{
    private const string Head = """
        # Completion of the command millrace for bash; made by `millrace completion bash`.
        # For one shell:  source <(millrace completion bash)
        # For good:       millrace completion bash > ~/.local/share/bash-completion/completions/millrace

        # The options of a verb; of none, those in front of it.
        _millrace_options() {
            case $1 in

        """;

    private const string Values = """
            esac
        }

        # What follows an option of a verb, or stands at a place behind it, counted from 0: its kind, and the words that are allowed.
        _millrace_value() {
            kind= words=
            case $1 in

        """;

    private const string Tail = """
            esac
        }

        # Asks the daemon, and has no answer where there is none. Whoever answers may be another user: what bash would take for more than a word is no answer, and nothing is expanded.
        _millrace_ask() {
            local word
            while IFS= read -r word; do
                [[ $word == "$cur"* && $word != *[^][A-Za-z0-9_.:/@%+,-]* ]] && printf '%s\n' "$word"
            done < <("${program/#\~/$HOME}" completion "$1" "${control[@]}" 2>/dev/null)
        }

        _millrace_offer() {
            local before word
            local -a offered
            case $kind in
                words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
                application) mapfile -t COMPREPLY < <(_millrace_ask applications) ;;
                pool) mapfile -t COMPREPLY < <(_millrace_ask pools) ;;
                file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
                folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
                servefile) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.json' -- "$cur") ;;
                target)
                    compopt -o filenames 2>/dev/null
                    mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.dll' -- "$cur"; compgen -f -X '!*.??proj' -- "$cur")
                    ;;
                address | addressorfile)
                    if [[ $cur == *://unix:* ]]; then
                        before=${cur%%://unix:*}://unix:
                        mapfile -t offered < <(compgen -d -S / -- "${cur#"$before"}"; compgen -f -X '!*.sock' -- "${cur#"$before"}")
                        for word in "${offered[@]}"; do
                            printf -v word '%q' "$word"
                            COMPREPLY+=("$before$word")
                        done
                        return
                    fi
                    mapfile -t COMPREPLY < <(compgen -W 'fastcgi://unix:/ fastcgi://127.0.0.1: http://unix:/ http://127.0.0.1:' -- "$cur"; _millrace_ask addresses)
                    if [[ $kind == addressorfile && $cur != *:* ]]; then
                        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -S / -- "$cur"; compgen -f -X '!*.json' -- "$cur")
                    fi
                    ;;
            esac
        }

        _millrace() {
            local IFS=$' \t\n' typed=${COMP_LINE:0:COMP_POINT} program cur word verb= wants= dashes= quote= kind words options
            local -a line control=()
            local -i i place=0
            COMPREPLY=()

            # As it was typed: bash itself takes words apart at ':' and '=' as well.
            read -r -a line <<<"$typed"
            [[ $typed == *[[:space:]] ]] && line+=('')
            program=${line[0]}
            cur=${line[-1]}
            for ((i = 1; i < ${#line[@]} - 1; i++)); do
                word=${line[i]}
                if [[ -n $wants ]]; then
                    [[ $wants == --control ]] && control=(--control "$word")
                    wants=
                elif [[ -n $dashes ]]; then
                    place+=1
                elif [[ $word == -- ]]; then
                    dashes=1
                elif [[ $word == --control=* ]]; then
                    control=(--control "${word#*=}")
                elif [[ $word == -* ]]; then
                    _millrace_value "$verb $word"
                    [[ -z $kind ]] || wants=$word
                elif [[ -z $verb ]]; then
                    verb=$word
                else
                    place+=1
                fi
            done

            if [[ $cur == [\'\"]* ]]; then
                quote=${cur:0:1}
                cur=${cur:1}
            fi
            if [[ -n $wants ]]; then
                _millrace_value "$verb $wants"
            elif [[ -z $dashes && $cur == --*=* ]]; then
                _millrace_value "$verb ${cur%%=*}"
                cur=${cur#*=}
            elif [[ -z $dashes && $cur == -* ]]; then
                _millrace_options "$verb"
                kind=words words=$options
            else
                _millrace_value "$verb $place"
            fi
            _millrace_offer
            [[ $kind == address* && ${COMPREPLY[0]:-} == *[:/] ]] && compopt -o nospace 2>/dev/null

            # What bash has taken for words of their own stays where it is.
            if [[ -z $quote && $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
                COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
            fi
        } && complete -F _millrace millrace

        """;

    public static string Write(IReadOnlyList<CompletedVerb> verbs, IReadOnlyList<CompletedOption> before)
    {
        var text = new StringBuilder(Head);
        text.Append(CultureInfo.InvariantCulture, $"        '') options='{Names(before)}' ;;\n");
        foreach (var verb in verbs)
        {
            text.Append(CultureInfo.InvariantCulture, $"        {verb.Name}) options='{Names(verb.Options)}' ;;\n");
        }
        text.Append(Values);
        text.Append(CultureInfo.InvariantCulture, $"        ' 0') kind=words words='{string.Join(' ', verbs.Select(static verb => verb.Name))}' ;;\n");
        foreach (var verb in verbs)
        {
            foreach (var (option, value) in verb.Options.Where(static option => option.Value is not null).Select(static option => (option, option.Value!)))
            {
                Append(text, string.Join(" | ", option.Names.Select(name => $"'{verb.Name} {name}'")), value);
            }
            for (int i = 0; i < verb.Arguments.Count; i++)
            {
                Append(text, verb.Arguments[i].Repeats ? $"'{verb.Name} '[0-9]*" : string.Create(CultureInfo.InvariantCulture, $"'{verb.Name} {i}'"), verb.Arguments[i]);
            }
        }
        return text.Append(Tail).ToString();
    }

    private static string Names(IEnumerable<CompletedOption> options) => string.Join(' ', options.SelectMany(static option => option.Names));

    private static void Append(StringBuilder text, string pattern, CompletedValue value) =>
        text.Append(CultureInfo.InvariantCulture, $"        {pattern}) kind={value.Kind.ToString().ToLowerInvariant()}{(value.Words.Count > 0 ? $" words='{string.Join(' ', value.Words)}'" : "")} ;;\n");
}
