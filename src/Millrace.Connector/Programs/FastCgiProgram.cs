// A FastCGI program behind an endpoint: what a request leads to, and what becomes of it when the program does not answer.

using System.Net;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.StaticFiles;
using Microsoft.Extensions.Logging;
using Millrace.Workers;

namespace Millrace.Connector;

internal sealed partial class FastCgiProgram : IDisposable
{
    private readonly FastCgiProgramOptions _options;
    private readonly ConnectionPool? _pool;
    private readonly ProcessPool? _processes;
    private readonly ScriptMap? _map;
    private readonly AnswerRoom? _room;
    private readonly AnswerFiles? _files;
    private readonly SentFiles _sent;
    private readonly FileExtensionContentTypeProvider _types = new();
    private readonly string _address;
    private readonly string? _rest;
    private readonly ILogger _logger;

    /// <param name="endPoint">Where the program listens.</param>
    /// <param name="options">Judged already.</param>
    /// <param name="rest">The route's parameter that holds what is below the program's place; null: there is nothing below it.</param>
    /// <param name="logger">Where it says why.</param>
    public FastCgiProgram(EndPoint endPoint, FastCgiProgramOptions options, string? rest, ILogger logger)
        : this(endPoint.ToString()!, options, rest, logger) =>
        _pool = new ConnectionPool(endPoint, new ConnectionLimits(options.ConnectionsMax, options.IdleTimeout, options.ConnectTimeout)) { KeepsConnections = options.KeepConnections };

    /// <param name="processes">Processes of the program; they are somebody else's.</param>
    /// <param name="options">Judged already.</param>
    /// <param name="rest">The route's parameter that holds what is below the program's place; null: there is nothing below it.</param>
    /// <param name="logger">Where it says why.</param>
    public FastCgiProgram(ProcessPool processes, FastCgiProgramOptions options, string? rest, ILogger logger)
        : this($"pool {processes.Name}", options, rest, logger) => _processes = processes;

    private FastCgiProgram(string address, FastCgiProgramOptions options, string? rest, ILogger logger)
    {
        _options = options;
        _address = address;
        _rest = rest;
        _logger = logger;
        _room = options.AnswerBufferMax > 0 ? new AnswerRoom(options.AnswerBuffersMax) : null;
        _files = options is { AnswerBufferMax: > 0, AnswerFilesMax: > 0 } ? new AnswerFiles(options.AnswerFilesMax, options.Clock, why => ProgramLog.CannotKeep(_logger, _address, ProgramLog.Plain(why))) : null;
        _map = options.Root is null ? null : new ScriptMap(options);
        _sent = new SentFiles(options);
        foreach (var (suffix, type) in options.FileTypes)
        {
            _types.Mappings[suffix] = type;
        }
    }

    public void Dispose() => _pool?.Dispose();

    public Task AnswerAsync(HttpContext context)
    {
        string path = context.Request.Path.Value ?? "";
        string rest = _rest is null ? "" : context.GetRouteValue(_rest) as string ?? "";
        string its = path.EndsWith(rest, StringComparison.Ordinal) ? rest : rest + "/";
        if (!path.EndsWith(its, StringComparison.Ordinal))
        {
            context.Response.StatusCode = StatusCodes.Status404NotFound;
            return Task.CompletedTask;
        }
        string prefix = path[..^its.Length].TrimEnd('/');
        return AnswerAsync(context, prefix, path[prefix.Length..], given: null);
    }

    /// <summary>Answers a request.</summary>
    /// <param name="context">The request.</param>
    /// <param name="prefix">The part of its path that leads to the program: empty, or from '/' and without '/' at its end.</param>
    /// <param name="below">The rest of its path.</param>
    /// <param name="given">The variables of a front server that speaks FastCGI, each character a byte; null: there is none, or they are nobody's business.</param>
    public Task AnswerAsync(HttpContext context, string prefix, string below, IReadOnlyDictionary<string, string>? given)
    {
        string place = (context.Request.PathBase.Value ?? "").TrimEnd('/') + prefix;
        ScriptTarget target = _map?.Find(place.Length + below.Length == 0 ? "/" : below) ?? new ScriptTarget(TargetKind.Script, "", "", below);
        switch (target.Kind)
        {
            case TargetKind.Script:
                return RunAsync(context, place, target, given);
            case TargetKind.File:
                return SendAsync(context, target.File);
            case TargetKind.Folder:
                context.Response.Redirect(new PathString(place + target.Script + "/").ToUriComponent() + context.Request.QueryString.ToUriComponent(), permanent: true, preserveMethod: true);
                return Task.CompletedTask;
            default:
                context.Response.StatusCode = StatusCodes.Status404NotFound;
                return Task.CompletedTask;
        }
    }

    // ---- a script ----

    private Task RunAsync(HttpContext context, string place, in ScriptTarget target, IReadOnlyDictionary<string, string>? given)
    {
        var request = new ProgramRequest(context, _options, given) { Room = _room, Files = _files };
        ValueTask preparing;
        try
        {
            preparing = request.PrepareAsync(place, target, _pool?.KeepsConnections ?? true, _options.TakeBodyFirst ?? _processes is not null);
        }
        catch (Exception error)
        {
            preparing = ValueTask.FromException(error);
        }
        return _pool is { } pool && preparing.IsCompletedSuccessfully ? request.AskAsync(pool, this) : RunAsync(context, request, preparing);
    }

    private async Task RunAsync(HttpContext context, ProgramRequest request, ValueTask preparing)
    {
        try
        {
            await preparing.ConfigureAwait(false);
            await AskAsync(context, request).ConfigureAwait(false);
            await request.SentAsync().ConfigureAwait(false);
            await (Conclude(context, request) ?? Task.CompletedTask).ConfigureAwait(false);
        }
        catch (Exception error)
        {
            if (!TryFail(context, request, error))
            {
                throw;
            }
        }
        finally
        {
            await request.StopSendingAsync().ConfigureAwait(false);     // the pool may have thrown behind a whole answer
            Leave(context, request);
        }
    }

    /// <summary>All of the answer is there: what there is to be done yet. Null: nothing.</summary>
    public Task? Conclude(HttpContext context, ProgramRequest request)
    {
        request.ShowFirst();        // no sooner: the pool could have thrown
        if (request.HandedOver is { } file)
        {
            return HandOverAsync(context, file.Path, file.File);
        }
        // Kestrel sends what has been written since the last flush with the next response only, where Content-Length is known. Where another body has been put in the
        // place of the server's it is lost, and where no Content-Type says that there is one somebody else (UseStatusCodePages) writes his own.
        return context.Response.HasStarted || (request.HasWritten && (context.Response.ContentType is null || !context.HasServersResponse()))
            ? context.Response.BodyWriter.FlushAsync(context.RequestAborted).AsTask()
            : null;
    }

    /// <summary>Answers for a program that has not. False: it is nothing of the program's doing.</summary>
    public bool TryFail(HttpContext context, ProgramRequest request, Exception error)
    {
        switch (error)
        {
            case ConnectorException its:
                Fail(context, request, GatewayAnswer.StatusOf(its.Fault), error);
                return true;
            case WorkerPoolException its:
                Fail(context, request, StatusFor(its), error);
                return true;
            case TimeoutException:
                Fail(context, request, StatusCodes.Status504GatewayTimeout, error);
                return true;
            case ProgramRequest.TooLargeException:
                context.Response.StatusCode = StatusCodes.Status413PayloadTooLarge;
                return true;
            default:
                return false;
        }
    }

    /// <summary>The request is over, as it was: what there is to be said of it goes into the log.</summary>
    public void Leave(HttpContext context, ProgramRequest request)
    {
        request.Dispose();
        if (request.LeftOut is { Count: > 0 } fields)
        {
            ProgramLog.LeftOut(_logger, context.Request.Method, ProgramLog.Plain(context.Request.Path.Value ?? ""), _address, string.Join(", ", fields));
        }
        if (request.Errors is { IsEmpty: false } errors)
        {
            ProgramLog.Printed(_logger, context.Request.Method, ProgramLog.Plain(context.Request.Path.Value ?? ""), _address, errors.ToString());
        }
    }

    private static int StatusFor(WorkerPoolException error) => error switch
    {
        WorkerTimeLimitException => StatusCodes.Status504GatewayTimeout,
        WorkerKilledException => StatusCodes.Status502BadGateway,
        _ => StatusCodes.Status503ServiceUnavailable,
    };

    private Task AskAsync(HttpContext context, ProgramRequest request) =>
        _processes is null ? request.AskAsync(_pool!) : AskProcessAsync(_processes, context, request);

    private static Task AskProcessAsync(ProcessPool processes, HttpContext context, ProgramRequest request)
    {
        string name = $"{context.Request.Method} {ProgramLog.Plain(context.Request.Path.Value ?? "")}";
        return request.RunAtFreeAsync(run => processes.RunAsync((process, ct) => run(ProcessConnection.To(process, processes.AbortLimit), ct), context.RequestAborted, name));
    }

    // What has come of an answer passes for all of it with nobody: not with the visitor, nor with middleware that would keep it for others.
    private void Fail(HttpContext context, ProgramRequest request, int status, Exception error)
    {
        string path = ProgramLog.Plain(context.Request.Path.Value ?? "");
        if (context.Response.HasStarted || (request.HasShown && context.HasServersResponse()))
        {
            ProgramLog.Broken(_logger, context.Request.Method, path, _address, ProgramLog.Plain(error.Message));
            context.Abort();
            throw new IOException("The answer of the program is not whole.", error);      // to a server, as the end of a client is, no failure of the application
        }
        ProgramLog.NoAnswer(_logger, context.Request.Method, path, _address, status, ProgramLog.Plain(error.Message));
        context.Response.Clear();
        context.Response.StatusCode = status;
    }

    // ---- a file ----

    private async Task HandOverAsync(HttpContext context, string? path, string? file)
    {
        using ServedFile? found = _sent.Open(path, file, out int errno);
        if (found is null)
        {
            context.Response.Clear();
            if (ServedFile.StatusOf(errno) != StatusCodes.Status404NotFound)
            {
                Refuse(context, path ?? file ?? "", errno);
                return;
            }
            ProgramLog.MayNotSend(_logger, context.Request.Method, ProgramLog.Plain(context.Request.Path.Value ?? ""), ProgramLog.Plain(path ?? file ?? ""));
            context.Response.StatusCode = StatusCodes.Status502BadGateway;
            return;
        }
        HttpResponse response = context.Response;
        response.ContentLength = null;
        response.Headers.ContentRange = default;
        response.StatusCode = StatusCodes.Status200OK;      // the file is answered, whatever the script has said of its own body
        context.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = null;
        string type = response.ContentType is { } said && Ascii.IsValid(said) ? said : (_types.TryGetContentType(found.Place, out string? known) ? known : "application/octet-stream");
        await found.SendAsync(context, type).ConfigureAwait(false);
    }

    private async Task SendAsync(HttpContext context, string path)
    {
        if (!_types.TryGetContentType(path, out string? type))
        {
            context.Response.StatusCode = StatusCodes.Status404NotFound;
            return;
        }
        using ServedFile? file = _map!.Open(path, out int errno);
        if (file is null)
        {
            Refuse(context, path, errno);
            return;
        }
        if (context.Request.Method is not ("GET" or "HEAD"))
        {
            context.Response.StatusCode = StatusCodes.Status405MethodNotAllowed;
            context.Response.Headers.Allow = "GET, HEAD";
            return;
        }
        await file.SendAsync(context, type).ConfigureAwait(false);
    }

    // What is not there is nobody's fault, and not for the log.
    private void Refuse(HttpContext context, string file, int errno)
    {
        int status = ServedFile.StatusOf(errno);
        context.Response.StatusCode = status;
        if (status != StatusCodes.Status404NotFound)
        {
            ProgramLog.CannotSend(_logger, context.Request.Method, ProgramLog.Plain(context.Request.Path.Value ?? ""), ProgramLog.Plain(file), status, ServedFile.Describe(errno));
        }
    }
}
