// The relay of one loop: its connections to each responder, those that are kept among them, and the one request that is just being taken on.

using System.Buffers;
using System.Diagnostics;
using System.Diagnostics.Metrics;
using System.IO.Pipelines;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed class FastCgiRelay<TKernel> : LoopRelay, ISweptRelay
    where TKernel : struct, IKernel
{
    /// <summary>A longer body is not sent from memory, but as it comes.</summary>
    public const int BodyMax = 16 * 1024;

    private const int ErrorLineMax = 512;

    private readonly IRelayRoutes _routes;
    private readonly RelayPool<TKernel>[] _pools;
    private readonly RecordWriter _request = new();
    private readonly Action<EventLoop<TKernel>> _closeOld;
    private readonly Action<EventLoop<TKernel>> _closeIdle;
    private RelayLink<TKernel>? _link;      // of the request that has been taken, until it begins
    private RelayRoute? _route;

    public FastCgiRelay(FastCgiRelays relays, EventLoop<TKernel> loop)
    {
        Loop = loop;
        _routes = relays.Routes;
        Durations = relays.Durations;
        _pools = [.. relays.Upstreams.Select(upstream => new RelayPool<TKernel>(this, upstream, relays.Limits))];
        _closeOld = _ => Array.ForEach(_pools, static pool => pool.CloseOld());
        _closeIdle = _ => Array.ForEach(_pools, static pool => pool.CloseIdle());
    }

    public EventLoop<TKernel> Loop { get; }

    /// <inheritdoc cref="FastCgiRelays.Durations"/>
    public Histogram<double> Durations { get; }

    /// <summary>Whoever listens is not this project's, and what he throws keeps nobody from the end of his answer.</summary>
    /// <param name="begunAt">When the request began; 0: nobody listened then.</param>
    public void NoteDuration(long begunAt)
    {
        try
        {
            if (begunAt != 0)
            {
                Durations.Record(Stopwatch.GetElapsedTime(begunAt).TotalSeconds);
            }
        }
        catch (Exception)
        {
            // There is nobody to tell.
        }
    }

    // ---- taking on ----

    public override bool TryTake(Exchange exchange)
    {
        if (exchange.Connection.IsUpgradable || !IsBodyThere(exchange) || !exchange.Head.TryGetPath())
        {
            return false;
        }
        StringValues host = exchange.RequestHeaders[HeaderNames.Host];
        if (Find(exchange.Head.PathText, host) is not { } route || _pools[route.Upstream].TryRent() is not { } link)
        {
            return false;
        }
        Write(exchange, host.ToString(), route);
        if (!TryWriteBody(exchange))
        {
            link.Return();
            return false;
        }
        _link = link;
        _route = route;
        return true;
    }

    // Where the path is none, or there is more than one host, the handler says so.
    private RelayRoute? Find(string path, StringValues hosts) =>
        path is ['/', ..] && hosts.Count <= 1 ? _routes.Find(RelayRoute.NameOf(hosts.ToString()), path) : null;

    private static bool IsBodyThere(Exchange exchange)
    {
        RequestBody body = exchange.Body;
        return body.State == BodyState.Complete && body.Received <= BodyMax && body.Received == Math.Max(0, exchange.Head.ContentLength)
            && (body.SizeMax is not { } max || body.Received <= max);
    }

    private void Write(Exchange exchange, string host, RelayRoute route)
    {
        _request.Clear();
        _request.WriteBegin(keepConnection: true);
        HeadParameters.Write(_request, exchange, host, route);
    }

    private bool TryWriteBody(Exchange exchange)
    {
        if (exchange.Body.Received == 0)
        {
            _request.EndEmptyStream(RecordType.Stdin);
            return true;
        }
        PipeReader body = exchange.Body.Reader;
        if (!body.TryRead(out System.IO.Pipelines.ReadResult read))
        {
            return false;
        }
        if (!read.IsCompleted)
        {
            body.AdvanceTo(read.Buffer.Start);
            return false;
        }
        _request.WriteBody(read.Buffer);
        _request.EndEmptyStream(RecordType.Stdin);
        body.AdvanceTo(read.Buffer.End);
        return true;
    }

    // ---- under way ----

    public override void Begin(Exchange exchange)
    {
        RelayLink<TKernel> link = _link!;
        _link = null;
        link.Begin(exchange, _route!);
        while (!link.TrySend(_request.Written.Span) && link is { IsUsed: true, HasSent: false })
        {
            // Its responder had just ended it, and nothing of the request has been acted upon.
            link.Drop();
            if (_pools[_route!.Upstream].TryConnect(out int result) is not { } fresh)
            {
                _pools[_route.Upstream].FailConnect(exchange, result);
                return;
            }
            link = fresh;
            link.Begin(exchange, _route);
        }
    }

    /// <summary>Sends a request once more that may be sent twice, over a new connection.</summary>
    public void Repeat(Exchange exchange, RelayRoute route)
    {
        RelayPool<TKernel> pool = _pools[route.Upstream];
        if (pool.TryConnect(out int result) is not { } link)
        {
            pool.FailConnect(exchange, result);
            return;
        }
        Write(exchange, exchange.RequestHeaders[HeaderNames.Host].ToString(), route);
        _request.EndEmptyStream(RecordType.Stdin);
        link.Begin(exchange, route);
        _ = link.TrySend(_request.Written.Span);
    }

    // ---- the end of a request ----

    /// <summary>The answer is all there, or all there will be.</summary>
    public void Finish(Exchange exchange)
    {
        exchange.End();
        if (Loop.Services.SlowRequestMs == long.MaxValue)
        {
            exchange.OnRunCompleted();
        }
        else
        {
            // It may call a logger, which is no code for a loop.
            Loop.Services.RunUserCode(static state => ((Exchange)state!).OnRunCompleted(), exchange);
        }
    }

    /// <summary>There is no whole answer.</summary>
    public void Fail(Exchange exchange, ConnectorException error)
    {
        if (exchange.Answer.HasStarted)
        {
            CutShort(exchange, error);
        }
        else if (error.IsMidway)
        {
            exchange.AbortByApplication(exchange.Ticket);
        }
        else
        {
            WriteError(exchange.Answer, error.Fault);
        }
        Finish(exchange);
    }

    // The answer has begun and cannot go on. One that is whole to its client, whatever is missing, takes no connection along.
    private static void CutShort(Exchange exchange, ConnectorException error)
    {
        if (!exchange.Life.IsGivenUp && (exchange.Life.IsUnwanted || !exchange.Answer.IsWholeToPeer))
        {
            exchange.MarkBroken();
        }
        exchange.AppStatus = 1;
        exchange.ErrorLine ??= FieldText.Shown($"millrace: request {exchange.TraceIdentifier}: {error.Message}", ErrorLineMax);
    }

    private static void WriteError(Answer answer, ConnectorFault fault)
    {
        answer.ReplaceByStatus(GatewayAnswer.StatusOf(fault));
        string text = GatewayAnswer.TextOf(fault);
        answer.Headers[HeaderNames.ContentType] = GatewayAnswer.ContentType;
        answer.Headers.ContentLength = text.Length;
        if (fault == ConnectorFault.Busy)
        {
            answer.Headers[HeaderNames.RetryAfter] = GatewayAnswer.RetryAfter;
        }
        answer.AppendNow(System.Text.Encoding.ASCII.GetBytes(text));
    }

    // ---- its end ----

    public void Sweep()
    {
        if (Array.Exists(_pools, static pool => pool.Idle > 0))
        {
            Loop.Post(_closeOld);
        }
    }

    public void GiveBack()
    {
        if (Array.Exists(_pools, static pool => pool.Idle > 0))
        {
            Loop.Post(_closeIdle);
        }
    }

    public override void Dispose()
    {
        Array.ForEach(_pools, static pool => pool.Close());
        _request.Dispose();
    }
}
