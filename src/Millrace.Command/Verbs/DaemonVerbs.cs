// The verbs that ask a running daemon over its control socket, and have something done: status, logs, and one each for what it can do.

using System.CommandLine;
using System.Globalization;
using System.Text;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class DaemonVerbs
{
    internal static readonly (int Code, string Meaning)[] ExitCodes =
    [
        (ExitCode.Success, "done"), (ExitCode.Failure, "the daemon could not do it; the sentence on standard error says why"),
        (ExitCode.Usage, "the command line is wrong"), (ExitCode.CannotConnect, "there is no daemon"),
    ];

    public static IEnumerable<System.CommandLine.Command> Create(CommandConsole console)
    {
        yield return StatusVerb.Create(console);
        yield return CreateLogs(console);
        yield return CreateAction(console, "start", "Start an application that is stopped or held.", "apps/{0}/start");
        yield return CreateAction(console, "stop", "End an application's processes and close its addresses.", "apps/{0}/stop");
        yield return CreateAction(console, "restart", "End an application's processes, and start them when they have ended; who comes meanwhile waits. `reload` leaves no gap.", "apps/{0}/restart");
        yield return CreateHold(console);
        yield return CreateAction(console, "release", "Start an application that is held.", "apps/{0}/release");
        yield return CreateReload(console);
        yield return CreateScale(console);
        yield return CreateUpgrade(console);
        yield return CreateShutdown(console);
    }

    internal static Option<string?> ControlOption() => new("--control") { Description = "Socket of the daemon. Default: that of a file without \"control\"", HelpName = "PATH" };

    private static Argument<string> AppArgument() => new("APP") { Description = "Name of an application, as in the file" };

    internal static ControlClient Connect(string? control) => new(control is null ? ServeFileSource.Defaults.Control : Path.GetFullPath(control));

    private static System.CommandLine.Command CreateAction(CommandConsole console, string name, string description, string request)
    {
        var (app, control) = (AppArgument(), ControlOption());
        var command = new System.CommandLine.Command(name, description) { app, control };
        command.SetAction((result, ct) => DoAsync(console, result.GetValue(control), string.Format(CultureInfo.InvariantCulture, request, Uri.EscapeDataString(result.GetRequiredValue(app))), ct));
        return command.WithHelp(new Help([($"millrace {name} shop", $"the application that the file calls shop")], ExitCodes));
    }

    private static System.CommandLine.Command CreateHold(CommandConsole console)
    {
        var (app, control) = (AppArgument(), ControlOption());
        var page = new Option<string?>("--page") { Description = "An HTML file that visitors see meanwhile, at most 1 MiB; default: a page that asks for patience", HelpName = "FILE" };
        var queue = new Option<string?>("--queue") { Description = "Visitors wait for the release, so long at most (1s to 1h), and are answered 503 only then", HelpName = "TIME" };
        var command = new System.CommandLine.Command("hold", "End an application's processes; its addresses answer 503 until it is released.") { app, page, queue, control };
        command.SetAction((result, ct) => DoAsync(
            console,
            result.GetValue(control),
            $"apps/{Uri.EscapeDataString(result.GetRequiredValue(app))}/hold" + (result.GetValue(queue) is { } time ? $"?queue={Uri.EscapeDataString(time)}" : ""),
            ct,
            result.GetValue(page) is { } file ? ReadPage(file) : null));
        return command.WithHelp(new Help(
            [("millrace hold shop", "until `millrace release shop`"), ("millrace hold shop --page sorry.html", "with a page of your own"), ("millrace hold shop --queue 30s", "for what is done in less: nobody sees that it was away")], ExitCodes));
    }

    private static byte[] ReadPage(string file)
    {
        byte[] page;
        try
        {
            page = new FileInfo(file).Length <= ControlServer.PageMax ? File.ReadAllBytes(file) : throw CommandFailure.Usage($"{file} is larger than 1 MiB, and so no page to show.");
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw CommandFailure.Usage($"{file} cannot be read: {error.Message}");
        }
        return page.Length > 0 ? page : throw CommandFailure.Usage($"{file} is empty; visitors would see nothing.");
    }

    private static System.CommandLine.Command CreateReload(CommandConsole console)
    {
        var app = new Argument<string?>("APP") { Description = "Name of an application; default: the file is read again, and what has changed is applied", Arity = ArgumentArity.ZeroOrOne };
        var control = ControlOption();
        var command = new System.CommandLine.Command("reload", "Put the next generation of an application in the place of the one that serves, or apply a changed file.") { app, control };
        command.SetAction((result, ct) => DoAsync(console, result.GetValue(control), result.GetValue(app) is { } name ? $"apps/{Uri.EscapeDataString(name)}/reload" : "reload", ct));
        return command.WithHelp(new Help(
            [("millrace reload shop", "after its files have changed: the new processes are started, asked for their health, and then take over"), ("millrace reload", "after the file has changed")], ExitCodes));
    }

    private static System.CommandLine.Command CreateScale(CommandConsole console)
    {
        var (app, control) = (AppArgument(), ControlOption());
        var count = new Argument<int>("N") { Description = "Processes, 1 to 64" };
        var command = new System.CommandLine.Command("scale", "Have an application run so many processes, until the file gives another number. No request is lost.") { app, count, control };
        command.SetAction((result, ct) => DoAsync(
            console, result.GetValue(control), $"apps/{Uri.EscapeDataString(result.GetRequiredValue(app))}/scale", ct, Encoding.ASCII.GetBytes(result.GetValue(count).ToString(CultureInfo.InvariantCulture))));
        return command.WithHelp(new Help([("millrace scale shop 4", "further processes are started, asked for their health, and then accept; those that are too many give their connections to the others")], ExitCodes));
    }

    private static System.CommandLine.Command CreateUpgrade(CommandConsole console)
    {
        var control = ControlOption();
        var command = new System.CommandLine.Command("upgrade", "Have the daemon become the version of Millrace that is installed now. Its applications go on, and no request is lost.") { control };
        command.SetAction(async (result, ct) =>
        {
            using var client = Connect(result.GetValue(control));
            return Say(console, await client.UpgradeAsync(ct));
        });
        return command.WithHelp(new Help([("millrace upgrade", "after another version has been installed in the place of the one that runs; where that cannot take over, the daemon goes on as it is")], ExitCodes));
    }

    private static System.CommandLine.Command CreateShutdown(CommandConsole console)
    {
        var control = ControlOption();
        var command = new System.CommandLine.Command("shutdown", "End the daemon and all its applications, as SIGTERM does.") { control };
        command.SetAction((result, ct) => DoAsync(console, result.GetValue(control), "stop", ct));
        return command.WithHelp(new Help([("millrace shutdown", "requests that are under way are answered first")], ExitCodes));
    }

    private static async Task<int> DoAsync(CommandConsole console, string? control, string request, CancellationToken ct, byte[]? body = null)
    {
        using var client = Connect(control);
        return Say(console, await client.DoAsync(request, body, ct));
    }

    private static int Say(CommandConsole console, ControlAnswer answer)
    {
        if (!answer.Ok)
        {
            throw new CommandFailure(ExitCode.Failure, answer.Message);
        }
        console.Output.WriteLine(CommandConsole.Readable(answer.Message, keepsLines: true));
        return ExitCode.Success;
    }

    private static System.CommandLine.Command CreateLogs(CommandConsole console)
    {
        var (app, control) = (AppArgument(), ControlOption());
        var lines = new Option<int>("--lines", "-n") { Description = "How many of the last lines (at most 500 are kept)", HelpName = "N", DefaultValueFactory = _ => 100 };
        var follow = new Option<bool>("--follow", "-f") { Description = "Go on with what comes" };
        var command = new System.CommandLine.Command("logs", "Print what the processes of an application have printed.") { app, lines, follow, control };
        command.SetAction(async (result, ct) =>
        {
            using var client = Connect(result.GetValue(control));
            await client.CopyLogsAsync(Uri.EscapeDataString(result.GetRequiredValue(app)), Math.Max(0, result.GetValue(lines)), result.GetValue(follow), console.RawOutput, ct);
            return ExitCode.Success;
        });
        return command.WithHelp(new Help([("millrace logs shop -f", "the last 100 lines, and those that come")], ExitCodes));
    }
}
