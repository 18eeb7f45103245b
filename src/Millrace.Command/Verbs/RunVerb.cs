// `millrace run TARGET`: an unmodified ASP.NET Core app with its server swapped. The parts are in Running/.

using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using System.Net.Sockets;
using Millrace.Command.Running;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class RunVerb
{
    // Where ASP.NET Core takes addresses from besides the command line.
    private static readonly string[] s_urlVariables = ["ASPNETCORE_URLS", "DOTNET_URLS", "URLS"];

    private static readonly TimeSpan s_hostPatience = TimeSpan.FromSeconds(5);

    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace run samples/Hello", "builds the project, listens on http://127.0.0.1:5000 and a Unix socket, prints the nginx block for the socket"),
            ("millrace run /srv/shop/Shop.dll --urls 'fastcgi://unix:/run/shop.sock?mode=660&group=www-data'", "a published app on a socket that nginx may open"),
            ("millrace run . --urls fastcgi://127.0.0.1:9000 --environment Development -- --Greeting=Hi", "the project here, with an argument of its own"),
        ],
        ExitCodes:
        [
            (ExitCode.Failure, "the application could not be built or started"),
            (ExitCode.Usage, "the command line is wrong"),
            (-1, "the application's own exit code (128 + signal if a signal ended it)"),
        ]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var target = new Argument<string>("TARGET") { Description = "App.dll, a published folder, a project folder or a project file (built in Release)" };
        var arguments = new Argument<string[]>("ARGUMENTS") { Description = "Arguments for the application, after --", Arity = ArgumentArity.ZeroOrMore };
        var urls = new Option<string?>("--urls")
        {
            Description = "Addresses to listen on, separated by ';', whatever the application's code says. Default: ASPNETCORE_URLS, else sockets that were passed (systemd, spawn-fcgi), else http://127.0.0.1:5000 and a FastCGI socket in /run or in a directory of your own",
            HelpName = "LIST",
        };
        var environment = new Option<string?>("--environment") { Description = "ASP.NET Core environment, e.g. Development", HelpName = "NAME" };
        environment.CompletionSources.Add("Development", "Staging", "Production");
        var command = new System.CommandLine.Command("run", "Run an unmodified ASP.NET Core application with its server swapped.") { target, arguments, urls, environment };
        command.SetAction((result, ct) => RunAsync(
            console,
            result.GetRequiredValue(target),
            result.GetValue(urls),
            result.GetValue(environment),
            ArgumentsOf(result, arguments),
            ct));
        return command.WithHelp(s_help);
    }

    // An option that is none of these would be the application's: a slip of the pen would have it listen elsewhere, in silence.
    private static string[] ArgumentsOf(ParseResult result, Argument<string[]> arguments)
    {
        string[] given = result.GetValue(arguments) ?? [];
        int behindDashes = result.Tokens.SkipWhile(static token => token.Type != TokenType.DoubleDash).Skip(1).Count();
        return given.SkipLast(behindDashes).FirstOrDefault(static argument => argument.StartsWith('-')) is { } unknown
            ? throw CommandFailure.Usage($"`run` has no option '{unknown}'. What is for the application stands behind --, as in: millrace run TARGET -- {unknown}")
            : given;
    }

    private static async Task<int> RunAsync(CommandConsole console, string target, string? urls, string? environment, string[] arguments, CancellationToken ct)
    {
        var app = await FindAsync(target, console, ct);
        var addresses = Addresses(urls);
        bool isNamed = addresses is not null || AppHasAddresses(arguments, Environment.GetEnvironmentVariable) || PassedSockets.OfProcess().Any;
        var chosen = isNamed ? null : Choose(app);

        using var process = AppProcess.Start(new AppStart(app, chosen?.List ?? addresses, chosen is not null, environment, arguments));
        var listening = await WaitAsync(process, app, chosen, console);
        if (listening.Count > 0)
        {
            Print(console, app, listening, chosen);
            return await process.WaitForExitAsync();
        }
        int exitCode = await process.WaitForExitAsync();
        console.Say($"{Path.GetFileName(app.Assembly)} has ended (exit code {exitCode}) without a web host of ASP.NET Core that listened: no server was swapped.");
        return exitCode;
    }

    // An application that listens goes on, whatever has become of standard output: a disk may be full, and a reader may have gone.
    private static void Print(CommandConsole console, RunnableApp app, IReadOnlyList<string> listening, ChosenAddresses? chosen)
    {
        try
        {
            Banner.Print(console, Environment.GetEnvironmentVariable(AppProcess.CommandVariable) ?? "millrace", app.ShortName, listening, chosen, Socket.OSSupportsIPv6);
        }
        catch (IOException error)
        {
            console.Say($"{error.Message} {app.ShortName} listens on {string.Join(" and ", listening)} all the same.");
        }
    }

    private static ChosenAddresses Choose(RunnableApp app)
    {
        var place = DefaultAddress.Choose(app.ShortName, UserFacts.OfProcess());
        DefaultAddress.Prepare(place);
        return new ChosenAddresses(place, DefaultAddress.HttpIsFree());
    }

    // Whether a program will build a host cannot be known before it does: that it may be none of those is said, and waited on.
    private static async Task<IReadOnlyList<string>> WaitAsync(AppProcess process, RunnableApp app, ChosenAddresses? chosen, CommandConsole console)
    {
        var listening = process.WaitForAddressesAsync(chosen);
        if (await Task.WhenAny(listening, Task.Delay(s_hostPatience)) != listening)
        {
            console.Say(string.Create(CultureInfo.InvariantCulture, $"{Path.GetFileName(app.Assembly)} runs, and no web host of ASP.NET Core listens in it after {s_hostPatience.TotalSeconds:0} s. If none comes, there is no server to swap and it runs as it is, on addresses of its own: so do plain handlers, which need no `millrace run`."));
            process.PassAllSignalsOn();
        }
        var addresses = await listening;
        process.PassAllSignalsOn();
        return addresses;
    }

    internal static IReadOnlyList<string>? Addresses(string? urls)
    {
        if (urls is null)
        {
            return null;
        }
        var list = urls.Split(';', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);
        return list.Length > 0 ? list : throw CommandFailure.Usage("--urls is empty. Name an address such as fastcgi://127.0.0.1:9000.");
    }

    internal static bool AppHasAddresses(IEnumerable<string> arguments, Func<string, string?> variable) =>
        arguments.Any(a => a.TrimStart('-', '/') is var name && (name.Equals("urls", StringComparison.OrdinalIgnoreCase) || name.StartsWith("urls=", StringComparison.OrdinalIgnoreCase)))
        || s_urlVariables.Any(name => !string.IsNullOrEmpty(variable(name)));

    private static async Task<RunnableApp> FindAsync(string target, CommandConsole console, CancellationToken ct)
    {
        if (AppTarget.FindProject(target) is not { } project)
        {
            return AppTarget.FindApp(target);
        }
        string assembly = await ProjectBuild.BuildAsync(project, console, ct);
        return AppTarget.Inspect(assembly, Path.GetDirectoryName(project)!);
    }
}
