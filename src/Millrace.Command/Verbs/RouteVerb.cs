// `millrace route`: the program behind a shared address of `millrace serve`, which starts it. Nobody else has a use for it, and no help speaks of it.

using System.CommandLine;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Millrace.Command.Routing;
using Millrace.Command.Terminals;

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
        var routes = RouteJson.Take() ?? throw CommandFailure.Usage("`millrace serve` starts this for the shared addresses of its file.");
        using var router = new Router(routes, console.Steady.Say);
        var builder = WebApplication.CreateEmptyBuilder(new WebApplicationOptions());
        builder.WebHost.UseKestrelCore();       // the start-up hook puts Millrace in its place
        await using var app = builder.Build();
        app.Run((RequestDelegate)router.AnswerAsync);
        await HostingAbstractionsHostExtensions.RunAsync(app, ct);
        return ExitCode.Success;
    }
}
