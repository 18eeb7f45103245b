// `millrace pool-host`: the process behind a pool of `millrace serve`, which starts it. Nobody else has a use for it, and no help speaks of it.

using System.CommandLine;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.Command.Pools;
using Millrace.Command.Routing;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Workers;

namespace Millrace.Command.Verbs;

internal static class PoolHostVerb
{
    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var command = new System.CommandLine.Command(PoolSettingsJson.Verb, "Answer with a pool of processes; `millrace serve` calls it.") { Hidden = true };
        command.SetAction((_, ct) => RunAsync(console, ct));
        return command;
    }

    private static async Task<int> RunAsync(CommandConsole console, CancellationToken ct)
    {
        Posix.BeginSession();
        LaterUser.Become();     // before that nobody but root looks into it: a script would find the keys of the pool in its environment
        var settings = PoolSettingsJson.Take() ?? throw CommandFailure.Usage("`millrace serve` starts this for the pools of its file.");
        string name = Taken(PoolSettingsJson.NameVariable);
        string key = Taken(PoolSettingsJson.KeyVariable);
        var daemon = DaemonsSocket.OfProcess();
        var builder = WebApplication.CreateSlimBuilder(new WebApplicationOptions { ContentRootPath = AppContext.BaseDirectory });
        builder.Logging.ClearProviders().AddFilter("Microsoft", LogLevel.Warning).AddProvider(new SaidLog(console.Steady.Say));
        builder.Services.Configure<KestrelServerOptions>(options => options.Limits.MaxRequestBodySize = settings.Body);
        builder.Services.AddProcessPool(name, options => PoolHost.Configure(options, settings));
        builder.Services.AddSingleton(services => new PoolHost(settings, services.GetRequiredKeyedService<ProcessPool>(name), new PoolAuthority(daemon, key), services, console.Steady.Say));
        await using var app = builder.Build();
        try
        {
            app.Run((RequestDelegate)app.Services.GetRequiredService<PoolHost>().AnswerAsync);
            await HostingAbstractionsHostExtensions.RunAsync(app, ct);
        }
        catch (Exception error) when (error is WorkerPoolException or OptionsValidationException or IOException)
        {
            throw new CommandFailure(ExitCode.Failure, error.Message);
        }
        return ExitCode.Success;
    }

    private static string Taken(string variable)
    {
        string value = Environment.GetEnvironmentVariable(variable) ?? "";
        Environment.SetEnvironmentVariable(variable, null);
        return value;
    }
}
