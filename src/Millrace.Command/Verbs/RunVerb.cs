// `millrace run TARGET`: an unmodified ASP.NET Core app with its server swapped. The parts are in Running/.

using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using System.Net.Sockets;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Listeners;

namespace Millrace.Command.Verbs;

internal static class RunVerb
{
    // Where ASP.NET Core takes addresses from besides the command line.
    private static readonly string[] s_urlVariables = ["ASPNETCORE_URLS", "DOTNET_URLS", "URLS"];

    private static readonly TimeSpan s_hostPatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_settle = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan s_settleWatched = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan s_drain = TimeSpan.FromSeconds(30);

    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace run samples/Hello", "builds the project, listens on http://127.0.0.1:5000 and a Unix socket, prints the nginx block for the socket"),
            ("millrace run /srv/shop/Shop.dll --urls 'fastcgi://unix:/run/shop.sock?mode=660&group=www-data'", "a published app on a socket that nginx may open"),
            ("millrace run . --urls fastcgi://127.0.0.1:9000 --environment Development -- --Greeting=Hi", "the project here, with an argument of its own"),
            ("millrace run . --watch --environment Development", "what is saved is built, and takes over when it listens; until then the version before answers"),
            ("millrace run /srv/shop --reload --urls http://127.0.0.1:5001", "`kill -HUP` of it puts a new process in the place of the one that runs"),
        ],
        ExitCodes:
        [
            (ExitCode.Failure, "the application could not be built or started"),
            (ExitCode.Usage, "the command line is wrong"),
            (-1, "the application's own exit code (128 + signal if a signal ended it); with --watch and --reload 0 once it has served"),
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
        var reload = new Option<bool>("--reload") { Description = "SIGHUP puts a new process in the place of the one that runs, which gives it its connections: no request is lost; a process that crashes is replaced" };
        var watch = new Option<bool>("--watch", "-w") { Description = "The same whenever the sources of a project have changed, which is built then, or the files of an App.dll; what does not build or start leaves the one that runs" };
        var command = new System.CommandLine.Command("run", "Run an unmodified ASP.NET Core application with its server swapped.") { target, arguments, urls, environment, reload, watch };
        command.SetAction((result, ct) =>
        {
            if (result.GetRequiredValue(target) is ['-', ..] option)
            {
                throw NoOption(option);
            }
            var run = new RunOf(result.GetRequiredValue(target), Addresses(result.GetValue(urls)), result.GetValue(environment), ArgumentsOf(result, arguments));
            return result.GetValue(watch) || result.GetValue(reload) ? RunReplaceableAsync(console, run, result.GetValue(watch)) : RunAsync(console, run, ct);
        });
        return command.WithHelp(s_help);
    }

    // An option that is none of these would be the application's: a slip of the pen would have it listen elsewhere, in silence.
    private static string[] ArgumentsOf(ParseResult result, Argument<string[]> arguments)
    {
        string[] given = result.GetValue(arguments) ?? [];
        int behindDashes = result.Tokens.SkipWhile(static token => token.Type != TokenType.DoubleDash).Skip(1).Count();
        return given.SkipLast(behindDashes).FirstOrDefault(static argument => argument.StartsWith('-')) is { } unknown
            ? throw NoOption(unknown)
            : given;
    }

    private static CommandFailure NoOption(string unknown) =>
        CommandFailure.Usage($"`run` has no option '{unknown}'. What is for the application stands behind --, as in: millrace run TARGET -- {unknown}");

    /// <param name="Target">What to run.</param>
    /// <param name="Addresses">Where, or null.</param>
    /// <param name="EnvironmentName">As <see cref="AppStart"/> has it.</param>
    /// <param name="Arguments">For the application.</param>
    private sealed record RunOf(string Target, IReadOnlyList<string>? Addresses, string? EnvironmentName, string[] Arguments);

    private static async Task<int> RunAsync(CommandConsole console, RunOf run, CancellationToken ct)
    {
        var app = await FindAsync(run.Target, console, ct);
        bool isNamed = run.Addresses is not null || AppHasAddresses(run.Arguments, Environment.GetEnvironmentVariable) || PassedSockets.OfProcess().Any;
        var chosen = isNamed ? null : Choose(app.ShortName);

        using var process = AppProcess.Start(new AppStart(app, chosen?.List ?? run.Addresses, chosen is not null, run.EnvironmentName, run.Arguments));
        var listening = await WaitAsync(process, app, chosen, console);
        if (listening.Count > 0)
        {
            Print(console, app.ShortName, listening, chosen);
            return await process.WaitForExitAsync();
        }
        int exitCode = await process.WaitForExitAsync();
        console.Say($"{Path.GetFileName(app.Assembly)} has ended (exit code {exitCode}) without a web host of ASP.NET Core that listened: no server was swapped.");
        return exitCode;
    }

    // An application that listens goes on, whatever has become of standard output: a disk may be full, and a reader may have gone.
    private static void Print(CommandConsole console, string name, IReadOnlyList<string> listening, ChosenAddresses? chosen)
    {
        try
        {
            Banner.Print(console, Environment.GetEnvironmentVariable(AppProcess.CommandVariable) ?? "millrace", name, listening, chosen, Socket.OSSupportsIPv6);
        }
        catch (IOException error)
        {
            console.Say($"{error.Message} {name} listens on {string.Join(" and ", listening)} all the same.");
        }
    }

    private static ChosenAddresses Choose(string name)
    {
        var place = DefaultAddress.Choose(name, UserFacts.OfProcess());
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

    // One process after the other on addresses that stay open: they are opened here, and so must be known before the application runs.
    private static async Task<int> RunReplaceableAsync(CommandConsole console, RunOf run, bool watches)
    {
        string? project = AppTarget.FindProject(run.Target);
        string name = (project is null ? AppTarget.FindApp(run.Target) : new RunnableApp(project, "", null)).ShortName;
        var named = run.Addresses ?? NamedFor(run.Arguments, Environment.GetEnvironmentVariable) ?? [.. InheritedListeners.Find().Select(static address => address.ToString())];
        var chosen = named.Count > 0 ? null : Choose(name);
        var settings = new AppSettings
        {
            Name = name.TrimStart('_') is { Length: > 0 } plain ? plain : "app",
            Target = Path.GetFullPath(run.Target),
            Urls = chosen?.List ?? named,
            Arguments = run.Arguments,
            Environment = run.EnvironmentName is { } environment ? new Dictionary<string, string> { ["ASPNETCORE_ENVIRONMENT"] = environment, ["DOTNET_ENVIRONMENT"] = environment } : [],
            Watch = watches && project is null,
            WatchSources = watches && project is not null,
            TriesAgain = false,
            SettleTimeout = watches ? s_settleWatched : s_settle,
            DrainTimeout = TimeSpan.TryParse(Environment.GetEnvironmentVariable("Millrace__DrainTimeout"), CultureInfo.InvariantCulture, out var drain) && drain > TimeSpan.Zero ? drain : s_drain,
        };
        RefuseWhatCannotBeOpened(settings, chosen);
        using var app = new SingleApp(settings, console);
        return await app.RunAsync(() => Print(console, name, app.Addresses, chosen));
    }

    // What stands in the way of a listener is known before anything is built. Sockets that were passed are open.
    private static void RefuseWhatCannotBeOpened(AppSettings settings, ChosenAddresses? chosen)
    {
        try
        {
            foreach (var address in settings.Urls.SelectMany(ListenAddress.ParseList).Where(static address => address.Kind != EndPointKind.Inherited))
            {
                foreach (var socket in ListenSockets.Open(address, loops: 1))
                {
                    socket.Dispose();
                }
            }
        }
        catch (MillraceStartException error)
        {
            throw new CommandFailure(ExitCode.Failure, chosen?.Explain(error.Message) ?? error.Message);
        }
        catch (FormatException error)
        {
            throw CommandFailure.Usage(error.Message);
        }
    }

    // As ASP.NET Core finds them: the arguments first, of which the last counts.
    internal static IReadOnlyList<string>? NamedFor(string[] arguments, Func<string, string?> variable)
    {
        string? named = null;
        for (int i = 0; i < arguments.Length; i++)
        {
            string[] parts = arguments[i].TrimStart('-', '/').Split('=', 2);
            if (parts[0].Equals("urls", StringComparison.OrdinalIgnoreCase))
            {
                named = parts.Length == 2 ? parts[1] : i + 1 < arguments.Length ? arguments[i + 1] : named;
            }
        }
        return Addresses(named ?? s_urlVariables.Select(variable).FirstOrDefault(static value => !string.IsNullOrEmpty(value)));
    }

    private static async Task<RunnableApp> FindAsync(string target, CommandConsole console, CancellationToken ct)
    {
        if (AppTarget.FindProject(target) is not { } project)
        {
            return AppTarget.FindApp(target);
        }
        string assembly = await ProjectBuild.BuildAsync(project, SourceFiles.FoldersOf(project), console, ct);
        return AppTarget.Inspect(assembly, Path.GetDirectoryName(project)!);
    }
}
