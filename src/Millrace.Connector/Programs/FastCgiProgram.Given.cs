// Scripts that a front server names, as it does for php-fpm (SCRIPT_FILENAME). The rule is the same as below a root of our own: a script is a file that is there and whose own name ends in an allowed
// suffix. What stands behind the name of another file (/upload/a.jpg/x.php) is no file, and is not gone back from to one that is.

using System.Text;
using System.Text.Unicode;
using Microsoft.AspNetCore.Http;

namespace Millrace.Connector;

internal sealed partial class FastCgiProgram
{
    private const string ScriptVariable = "SCRIPT_FILENAME";

    // mod_proxy_fcgi's way to name a script: proxy:fcgi://localhost/srv/x.php, proxy:unix:/run/php.sock|fcgi://localhost/srv/x.php.
    private const string ApacheProxy = "proxy:";
    private const string ApacheScheme = "fcgi://";

    /// <summary>Answers a request of a front server that names the script itself.</summary>
    /// <param name="context">The request.</param>
    /// <param name="given">The front server's variables, each character a byte.</param>
    /// <param name="anyScript">Whether the program is no collection of scripts, and every request is its own.</param>
    /// <returns>Null, or why it has been answered 404.</returns>
    public async Task<string?> AnswerGivenAsync(HttpContext context, IReadOnlyDictionary<string, string> given, bool anyScript)
    {
        string file = "";
        if (!anyScript && WhyNoScript(given, out file) is { } why)
        {
            context.Response.StatusCode = StatusCodes.Status404NotFound;
            return $"{context.Request.Method} {ProgramLog.Plain(context.Request.Path.Value ?? "")}: {ProgramLog.Plain(why)}";
        }
        await RunAsync(context, "", new ScriptTarget(TargetKind.Script, file), given).ConfigureAwait(false);
        return null;
    }

    private string? WhyNoScript(IReadOnlyDictionary<string, string> given, out string file)
    {
        byte[] named = Encoding.Latin1.GetBytes(ScriptOf(given.GetValueOrDefault(ScriptVariable) ?? ""));
        file = Encoding.UTF8.GetString(named);
        string name = file[(file.LastIndexOf('/') + 1)..];
        return file.Length == 0 ? $"the web server has not said which script ({ScriptVariable})."
            : !Utf8.IsValid(named) ? $"{file} is no UTF-8, and cannot be looked for."
            : file[0] != '/' || file.Contains('\0', StringComparison.Ordinal) ? $"{ScriptVariable} is {file}, which is no full path."
            : !ScriptMap.IsScript(name, _options) ? $"{file} does not end in {string.Join(" or ", _options.Suffixes)}, and is not run."
            : !File.Exists(file) ? $"there is no file {file}, or its folder is closed to user {Environment.UserName}."
            : null;
    }

    private static string ScriptOf(string named)
    {
        if (!named.StartsWith(ApacheProxy, StringComparison.Ordinal))
        {
            return named;
        }
        int host = named.IndexOf(ApacheScheme, StringComparison.Ordinal);
        int path = host < 0 ? -1 : named.IndexOf('/', host + ApacheScheme.Length);
        return path < 0 ? named : named[path..];
    }
}
