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
            ("millrace get http://unix:/run/app.sock /big --body-only | sha256sum", "only the body, over HTTP"),
        ],
        ExitCodes:
        [
            (ExitCode.Success, "a response with a status below 400"),
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
        var headers = new Option<string[]>("--header", "-H") { Description = "A request header, 'Name: value'; may be given several times", HelpName = "LINE" };
        var data = new Option<string?>("--data", "-d") { Description = "Body: DATA itself, @FILE as it is, or @- for standard input", HelpName = "DATA" };
        var bodyOnly = new Option<bool>("--body-only", "-b") { Description = "Print the body without status and headers" };
        var verbose = new Option<bool>("--verbose", "-v") { Description = "Show what passes both ways on standard error" };
        var timeout = new Option<double>("--timeout") { Description = "Seconds until the request is given up", HelpName = "SECONDS", DefaultValueFactory = _ => 30, CustomParser = ReadSeconds };
        var command = new System.CommandLine.Command("get", "Send one request, as curl does for HTTP, and print the response.")
        {
            address, path, method, headers, data, bodyOnly, verbose, timeout,
        };
        command.SetAction((result, ct) =>
        {
            var where = ServerAddress.Parse(result.GetRequiredValue(address));
            var limit = TimeSpan.FromSeconds(result.GetValue(timeout));
            var request = FetchRequest.Create(result.GetValue(method), result.GetRequiredValue(path), result.GetValue(headers) ?? [], result.GetValue(data));
            return RunAsync(console, where, request, result.GetValue(bodyOnly), result.GetValue(verbose), limit, ct);
        });
        return command.WithHelp(s_help);
    }

    private static async Task<int> RunAsync(CommandConsole console, ServerAddress address, FetchRequest request, bool bodyOnly, bool verbose, TimeSpan timeout, CancellationToken ct)
    {
        using var deadline = CancellationTokenSource.CreateLinkedTokenSource(ct);
        deadline.CancelAfter(timeout);
        var writer = new ResponseWriter(console, bodyOnly);
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
