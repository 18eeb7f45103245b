// `millrace get ADDRESS PATH`: one request, its response on standard output. The protocols are in Fetching/.

using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using Millrace.Command.Fetching;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class GetVerb
{
    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace get fastcgi://unix:/run/app.sock '/hello?x=1'", "status, headers and body of one page"),
            ("millrace get fastcgi://127.0.0.1:9000 /upload -d @photo.jpg -H 'Content-Type: image/jpeg' -v", "a file as the body; the records both ways on standard error"),
            ("millrace get fastcgi://unix:/run/php/php-fpm.sock /index.php/x --script index.php --root /var/www", "a script of any FastCGI responder's"),
            ("millrace get http://unix:/run/app.sock /big --body-only | sha256sum", "only the body, over HTTP"),
            ("mysqldump shop | millrace get fastcgi://unix:/run/app.sock /restore --stdin -o answer.json", "a body that nobody knows the length of, and a file for the answer's"),
        ],
        ExitCodes:
        [
            (ExitCode.Success, "a response with a status below 400"),
            (ExitCode.Failure, "the file of --output cannot be written"),
            (ExitCode.Usage, "the command line is wrong"),
            (ExitCode.CannotConnect, "no connection"),
            (ExitCode.StatusOf400OrMore, "a response with a status of 400 or more"),
            (ExitCode.TimedOut, "no whole response in time"),
            (ExitCode.BrokenResponse, "the response is broken, cut off or refused"),
            (ExitCode.ReaderGone, "nobody reads the output any more, as behind `| head`"),
        ]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var address = new Argument<string>("ADDRESS") { Description = "fastcgi://unix:/run/app.sock, fastcgi://127.0.0.1:9000, or http:// likewise" };
        var path = new Argument<string>("PATH") { Description = "Path and query, e.g. '/hello?x=1'" };
        var method = new Option<string?>("--request", "-X") { Description = "Method. Default: GET, or POST with -d", HelpName = "METHOD" };
        method.CompletionSources.Add("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS");
        var headers = new Option<string[]>("--header", "-H") { Description = "A request header, 'Name: value'; may be given several times", HelpName = "LINE" };
        var head = new Option<bool>("--head", "-I") { Description = "Ask with HEAD: status and headers alone" };
        var data = new Option<string?>("--data", "-d") { Description = "Body: DATA itself, @FILE as it is, or @- for standard input, read to its end first", HelpName = "DATA" };
        var stdin = new Option<bool>("--stdin") { Description = "Body: standard input, sent as it comes, without a length" };
        var variables = new Option<string[]>("--param", "-p") { Description = "A FastCGI variable, in place of the one that is sent otherwise or besides; may be given several times", HelpName = "NAME=VALUE" };
        var script = new Option<string?>("--script") { Description = "A file that the responder runs, such as index.php: sends SCRIPT_FILENAME, SCRIPT_NAME, PATH_INFO and DOCUMENT_ROOT for it", HelpName = "FILE" };
        var root = new Option<string?>("--root") { Description = "The folder that is '/' to visitors, for --script. Default: that of the file", HelpName = "DIR" };
        var bodyOnly = new Option<bool>("--body-only", "-b") { Description = "Print the body without status and headers" };
        var include = new Option<bool>("--include", "-i") { Description = "Print status, headers and body: so it is without this option too, unlike with curl" };
        var output = new Option<string?>("--output", "-o") { Description = "Write the body to this file; status and headers are printed", HelpName = "FILE" };
        var verbose = new Option<bool>("--verbose", "-v") { Description = "Show what passes both ways on standard error" };
        var timeout = new Option<double>("--timeout") { Description = "Seconds until the request is given up", HelpName = "SECONDS", DefaultValueFactory = _ => 30, CustomParser = ReadSeconds };
        var command = new System.CommandLine.Command("get", "Send one request, as curl does for HTTP, and print the response.")
        {
            address, path, method, head, headers, data, stdin, variables, script, root, include, bodyOnly, output, verbose, timeout,
        };
        command.SetAction((result, ct) =>
        {
            var where = ServerAddress.Parse(result.GetRequiredValue(address));
            string? body = BodyOf(result.GetValue(data), result.GetValue(stdin));
            string? word = MethodOf(result.GetValue(method), result.GetValue(head), hasBody: body is not null);
            if (result.GetValue(include) && result.GetValue(bodyOnly))
            {
                throw CommandFailure.Usage("--include prints status and headers, --body-only leaves them out: name one of them.");
            }
            var request = FetchRequest.Create(word, result.GetRequiredValue(path), result.GetValue(headers) ?? [], body, where.DefaultHost);
            request = request with { Variables = VariablesOf(where, request.Target, result.GetValue(variables) ?? [], result.GetValue(script), result.GetValue(root)) };
            var limit = TimeSpan.FromSeconds(result.GetValue(timeout));
            return RunAsync(console, where, request, new ResponseWriter(console, result.GetValue(bodyOnly), result.GetValue(output)), result.GetValue(verbose), limit, ct);
        });
        return command.WithHelp(s_help);
    }

    private static string? BodyOf(string? data, bool stdin) => stdin && data is not null
        ? throw CommandFailure.Usage("--stdin and --data are two bodies: name one of them.")
        : stdin ? FetchRequest.StandardInput : data;

    private static string? MethodOf(string? method, bool head, bool hasBody) => head && (method is not null || hasBody)
        ? throw CommandFailure.Usage($"--head asks with HEAD and without a body, and {(hasBody ? "there is one" : $"the method is to be {method}")}: leave one of them out.")
        : head ? "HEAD" : method;

    private static KeyValuePair<string, string>[] VariablesOf(ServerAddress address, string target, string[] variables, string? script, string? root)
    {
        if (address.Scheme != ServerScheme.FastCgi && (variables.Length > 0 || script is not null))
        {
            throw CommandFailure.Usage("--param and --script are for FastCGI, and the address is one of HTTP.");
        }
        if (root is not null && script is null)
        {
            throw CommandFailure.Usage("--root says where --script lies: name that too.");
        }
        KeyValuePair<string, string>[] own = [.. FetchRequest.ParseVariables(variables)];
        return [.. (script is null ? [] : FetchRequest.ScriptVariables(script, root, target)).Where(its => own.All(variable => variable.Key != its.Key)), .. own];
    }

    private static async Task<int> RunAsync(CommandConsole console, ServerAddress address, FetchRequest request, ResponseWriter response, bool verbose, TimeSpan timeout, CancellationToken ct)
    {
        using var writer = response;
        using var deadline = CancellationTokenSource.CreateLinkedTokenSource(ct);
        deadline.CancelAfter(timeout);
        var trace = verbose ? console.Error : null;
        try
        {
            int status = address.Scheme == ServerScheme.FastCgi
                ? await new FastCgiFetch(new RecordTrace(trace), writer, console.Error).RunAsync(address, request, deadline.Token)
                : await new HttpFetch(trace, writer).RunAsync(address, request, deadline.Token);
            return status >= 400 ? ExitCode.StatusOf400OrMore : ExitCode.Success;
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new CommandFailure(ExitCode.TimedOut, $"No whole response within {timeout.TotalSeconds:0.###} seconds. Look at the server, or give it more time with --timeout.");
        }
        finally
        {
            if (request.Body is not null)
            {
                await request.Body.DisposeAsync();
            }
        }
    }

    private static double ReadSeconds(ArgumentResult argument)
    {
        if (!double.TryParse(argument.Tokens[0].Value, NumberStyles.Float, CultureInfo.InvariantCulture, out double seconds) || seconds is not (> 0 and <= 86400))
        {
            argument.AddError("--timeout is a number of seconds above 0, at most 86400.");
        }
        return seconds;
    }
}
