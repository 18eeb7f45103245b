// `millrace route`: the program behind a shared address of `millrace serve`, which starts it. Nobody else has a use for it, and no help speaks of it.

using System.CommandLine;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Command.Routing;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Loops;

namespace Millrace.Command.Verbs;

internal static class RouteVerb
{
    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var command = new System.CommandLine.Command(RouterSettings.Verb, "Pass the requests of a shared address on; `millrace serve` calls it.") { Hidden = true };
        command.SetAction((_, ct) => RunAsync(console, ct));
        return command;
    }

    private static async Task<int> RunAsync(CommandConsole console, CancellationToken ct)
    {
        Posix.BeginSession();
        LaterUser.Become();     // before that nobody but root looks into it: through its descriptor of the folder every other process of its user would reach the applications
        var routes = RouteJson.Take() ?? throw CommandFailure.Usage("`millrace serve` starts this for the shared addresses of its file.");
        using var router = new Router(routes, Environment.GetEnvironmentVariable(RouteJson.FolderVariable) ?? "/", console.Steady.Say, RouteKey.Take(), DaemonsSocket.OfProcess());
        var builder = WebApplication.CreateSlimBuilder(new WebApplicationOptions { ContentRootPath = AppContext.BaseDirectory });
        builder.Logging.ClearProviders();
        builder.Services.Configure<KestrelServerOptions>(LeaveToApplications);
        builder.Services.AddSingleton<RelayMaker>(router.Relays);
        await using var app = builder.Build();
        app.Run((RequestDelegate)router.AnswerAsync);
        await HostingAbstractionsHostExtensions.RunAsync(app, ct);
        return ExitCode.Success;
    }

    // How large a body may be, and how slowly it may come, is each application's to say: it sees both, and has limits for both over FastCGI. How slowly an answer is read it
    // does not see: it is asked over FastCGI, where that is the business of who has the client.
    internal static void LeaveToApplications(KestrelServerOptions options)
    {
        options.Limits.MaxRequestBodySize = null;
        options.Limits.MinRequestBodyDataRate = null;
    }
}
