// A pool of the daemon's file, in its own process: takes requests as php-fpm does, and has the first free process of the pool answer each. What goes wrong is said in the log, and to visitors no more than
// a status.

using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.AspNetCore;
using Millrace.Command.Routing;
using Millrace.Command.Serving;
using Millrace.Connector;
using Millrace.Exchanges;
using Millrace.Workers;
using Millrace.Workers.Control;

namespace Millrace.Command.Pools;

internal sealed class PoolHost : IDisposable
{
    private readonly ProcessPool _pool;
    private readonly FastCgiProgram _program;
    private readonly PoolControl _control;
    private readonly CalmLog _log;
    private readonly PoolAuthority _authority;
    private readonly bool _hasRoot;
    private readonly bool _anyScript;

    /// <param name="settings">What may be asked.</param>
    /// <param name="pool">The processes.</param>
    /// <param name="authority">Who may have something done to it.</param>
    /// <param name="services">Those of the process.</param>
    /// <param name="log">Takes sentences, and does not wait.</param>
    public PoolHost(PoolSettings settings, ProcessPool pool, PoolAuthority authority, IServiceProvider services, Action<string> log)
    {
        (_hasRoot, _anyScript) = (settings.Root is not null, settings.Suffixes.Count == 0);
        (_pool, _authority) = (pool, authority);
        _log = new CalmLog(log);
        _control = new PoolControl([pool], services, path: null, loggers: null);
        _program = new FastCgiProgram(pool, OptionsOf(settings), rest: null, new SaidLog(log).CreateLogger(SaidLog.Calm));
    }

    public async Task AnswerAsync(HttpContext context)
    {
        if (_authority.MayControl(context))
        {
            await _control.ProcessRequestAsync(context);
            return;
        }
        if (_authority.AsksForHealth(context))
        {
            context.Response.StatusCode = IsWell(_pool.GetStatus()) ? StatusCodes.Status200OK : StatusCodes.Status503ServiceUnavailable;
            return;
        }
        var given = GivenTo(context);
        if (_hasRoot || given is null)
        {
            await _program.AnswerAsync(context, "", context.Request.Path.Value is { Length: > 0 } path ? path : "/", given);
        }
        else if (await _program.AnswerGivenAsync(context, given, _anyScript) is { } why)
        {
            _log.Say("no script", $"{why} The visitor has 404.");
        }
    }

    // As bytes: what a web server names must be that very file.
    private static IReadOnlyDictionary<string, string>? GivenTo(HttpContext context)
    {
        if (context.Features.Get<IFastCgiFeature>() is not RequestBound its)
        {
            return null;
        }
        using ExchangeUse use = its.Exchange.Use(its.Ticket);
        return ParameterList.ReadBytes(its.Exchange.Head);
    }

    /// <summary>Whether the pool can answer, or has not been asked yet. One of whose processes none can be made, and none is left, may do better in another process of the daemon's.</summary>
    internal static bool IsWell(WorkerPoolStatus status) => status.StartFailure is null || status.Workers.Any(static worker => worker.State is WorkerState.Idle or WorkerState.Busy);

    public void Dispose()
    {
        _program.Dispose();
        _control.Dispose();
    }

    /// <summary>The same processes, as the pool has them.</summary>
    public static void Configure(ProcessPoolOptions options, PoolSettings settings)
    {
        options.Command = settings.Command;
        foreach (string argument in settings.Arguments)
        {
            options.Arguments.Add(argument);
        }
        foreach (var (name, value) in settings.Environment)
        {
            options.Environment[name] = value;
        }
        options.Inherited = ProcessPoolOptions.OfProcess().Where(static variable => !IsOwn(variable.Key)).ToDictionary();
        options.WorkingDirectory = settings.WorkingDirectory;
        (options.Min, options.Max, options.IdleLimit) = (settings.Min, settings.Max, settings.Idle);
        (options.QueueMax, options.WaitLimit, options.CallLimit, options.AbortLimit) = (settings.Queue, settings.Wait, settings.Call, settings.Abort);
        (options.StartLimit, options.DrainLimit, options.MemoryMax) = (settings.Start, settings.Drain, settings.Memory);
        (options.RecycleAfterCalls, options.RecycleAboveMemory) = (settings.Recycling.Requests, settings.Recycling.Memory);
        options.RecycleAfter = settings.Recycling.Age ?? Timeout.InfiniteTimeSpan;
    }

    // What the daemon has told this process is not for scripts.
    private static bool IsOwn(string variable) =>
        variable.StartsWith("MILLRACE_", StringComparison.OrdinalIgnoreCase) || variable.StartsWith("Millrace__", StringComparison.Ordinal)
        || variable.StartsWith("DOTNET_", StringComparison.Ordinal) || variable.StartsWith("ASPNETCORE_", StringComparison.Ordinal);

    private static FastCgiProgramOptions OptionsOf(PoolSettings settings)
    {
        var options = new FastCgiProgramOptions { Root = settings.Root, Fallback = settings.Fallback, ServeFiles = settings.ServeFiles, UnknownLengthMax = settings.Body, ReadTimeout = TimeSpan.FromDays(1) };
        Replace(options.Suffixes, settings.Suffixes);
        Replace(options.Index, settings.Index);
        return options;

        static void Replace(IList<string> all, IReadOnlyList<string> by)
        {
            all.Clear();
            foreach (string one in by)
            {
                all.Add(one);
            }
        }
    }
}
