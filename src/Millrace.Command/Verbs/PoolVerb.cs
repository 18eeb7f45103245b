// `millrace pool`: the pools of running applications (`AddPoolControl`) and of the daemon's file, and what can be done to them, over control sockets.

using System.CommandLine;
using System.Globalization;
using System.Text.Json;
using Millrace.Command.Pools;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Workers.Control;

namespace Millrace.Command.Verbs;

internal static class PoolVerb
{
    private static readonly (int Code, string Meaning)[] s_exitCodes =
    [
        (ExitCode.Success, "done"), (ExitCode.Failure, "it could not be done; the sentence on standard error says why"),
        (ExitCode.Usage, "the command line is wrong"), (ExitCode.CannotConnect, "no process with such pools is there"),
    ];

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var action = new Argument<string>("ACTION") { Description = "list, kill, recycle, resize, hold, release or swap", HelpName = "ACTION" };
        action.AcceptOnlyFromAmong("list", "kill", "recycle", "resize", "hold", "release", "swap");
        var pool = new Argument<string?>("POOL") { Description = "Name of a pool; all of them are listed without", Arity = ArgumentArity.ZeroOrOne };
        var numbers = new Argument<int[]>("N") { Description = "kill, recycle: the worker; resize: how many workers, or at least and at most", Arity = new ArgumentArity(0, 2) };
        var control = new Option<string?>("--control") { Description = "Socket of the process, or of the daemon. Default: those of all processes of this user that have given it no path, and of this user's daemon", HelpName = "PATH" };
        var json = new Option<bool>("--json") { Description = "list: as the processes say it, for programs" };
        var command = new System.CommandLine.Command("pool", "Show the pools of workers of running applications (services.AddPoolControl()) and of the daemon's file, or do something to one.") { action, pool, numbers, json, control };
        command.SetAction(async (result, ct) =>
        {
            string verb = result.GetRequiredValue(action);
            int[] its = result.GetValue(numbers) ?? [];
            if (verb == "list")
            {
                await ListAsync(console, result.GetValue(control), result.GetValue(pool), result.GetValue(json), ct);
                return ExitCode.Success;
            }
            string query = QueryOf(verb, its);
            return await DoAsync(console, result.GetValue(control), result.GetValue(pool) ?? throw CommandFailure.Usage("POOL is missing: `millrace pool list` shows which there are."), query, ct);
        });
        return command.WithHelp(new Help(
            [
                ("millrace pool list", "all pools of this user's processes, and their workers"),
                ("millrace pool kill php 3", "ends worker 3 at once; its caller has an error, and another worker takes its place"),
                ("millrace pool recycle php 3", "the same when its call has ended"),
                ("millrace pool resize php 2 8", "from 2 to 8 workers, until the application starts again"),
                ("millrace pool hold php", "calls wait, until `millrace pool release php`"),
                ("millrace pool swap php", "fresh workers, one after the other, after their program has been exchanged"),
            ],
            s_exitCodes));
    }

    private static string QueryOf(string verb, int[] numbers) => (verb, numbers) switch
    {
        ("kill" or "recycle", [var worker]) => string.Create(CultureInfo.InvariantCulture, $"{verb}?worker={worker}"),
        ("kill" or "recycle", _) => throw CommandFailure.Usage($"`millrace pool {verb} POOL N` wants the number of one worker: `millrace pool list` shows them."),
        ("resize", [var count]) => string.Create(CultureInfo.InvariantCulture, $"resize?min={count}&max={count}"),
        ("resize", [var min, var max]) => string.Create(CultureInfo.InvariantCulture, $"resize?min={min}&max={max}"),
        ("resize", _) => throw CommandFailure.Usage("`millrace pool resize POOL N` wants how many workers there are to be, or at least and at most."),
        (_, []) => verb,
        _ => throw CommandFailure.Usage($"`millrace pool {verb} POOL` takes no number."),
    };

    private static async Task ListAsync(CommandConsole console, string? control, string? only, bool isJson, CancellationToken ct)
    {
        List<PoolsStatus> all = [];
        foreach (var (client, status) in await PoolSearch.FindAsync(control, console.Say, ct))
        {
            client.Dispose();
            all.Add(status);
        }
        if (only is not null && !all.Exists(status => status.Pools.Any(pool => pool.Name == only)))
        {
            throw NoSuch(only, all);
        }
        if (isJson)
        {
            console.Output.WriteLine(JsonSerializer.Serialize(only is null ? all : all.ConvertAll(status => status with { Pools = [.. status.Pools.Where(pool => pool.Name == only)] }), PoolJson.Default.ListPoolsStatus));
        }
        else
        {
            console.Output.WriteLine(PoolTable.Of(all, only, DateTimeOffset.UtcNow));
        }
    }

    private static async Task<int> DoAsync(CommandConsole console, string? control, string pool, string query, CancellationToken ct)
    {
        var all = await PoolSearch.FindAsync(control, console.Say, ct);
        try
        {
            PoolClient[] its = [.. all.Where(each => each.Status.Pools.Any(one => one.Name == pool)).Select(static each => each.Client)];
            if (its.Length > 1)
            {
                throw new CommandFailure(ExitCode.Failure, $"{its.Length} processes have a pool {CommandConsole.Readable(pool)}. Say which, with --control: {string.Join(", ", its.Select(static client => client.Path))}.");
            }
            var answer = its is [var one] ? await one.DoAsync(pool, query, ct) : throw NoSuch(pool, all.Select(static each => each.Status));
            string message = Sentence.Of(answer.Message);
            if (!answer.Ok)
            {
                throw new CommandFailure(ExitCode.Failure, message);
            }
            console.Output.WriteLine(CommandConsole.Readable(message, keepsLines: true));
            return ExitCode.Success;
        }
        finally
        {
            foreach (var (client, _) in all)
            {
                client.Dispose();
            }
        }
    }

    /// <summary>The names of all pools that there are.</summary>
    /// <param name="control">The socket of one process, or null.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="CommandFailure">Nobody answers.</exception>
    internal static async Task<IEnumerable<string>> NamesAsync(string? control, CancellationToken ct)
    {
        var all = await PoolSearch.FindAsync(control, static _ => { }, ct);
        foreach (var (client, _) in all)
        {
            client.Dispose();
        }
        return all.SelectMany(static each => each.Status.Pools).Select(static pool => pool.Name);
    }

    private static CommandFailure NoSuch(string pool, IEnumerable<PoolsStatus> all)
    {
        string[] names = [.. all.SelectMany(static status => status.Pools).Select(static one => one.Name).Distinct()];
        return new CommandFailure(ExitCode.Failure, $"There is no pool {pool}. {(names.Length > 0 ? $"There are: {string.Join(", ", names)}." : "There are none.")}");
    }
}
