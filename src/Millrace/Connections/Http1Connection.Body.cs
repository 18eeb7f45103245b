// The request bodies of an HTTP/1.1 connection: by length, in chunks (RFC 9112 §6, §7), or after a switch of protocols
// everything that comes. Bytes go to the handler as they arrive; what no handler reads is drained, or ends the connection.

using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Connections;

internal sealed partial class Http1Connection<TKernel>
{
    private long _restSinceMs;              // since when the rest of a body is waited for that no handler reads
    private long _restLastMs;               // when the last of it came
    private bool _expectsContinue;
    private volatile bool _continueSent;    // by the exchange
    private volatile bool _bodyWanted;      // by the exchange
    private volatile bool _upgraded;        // by the exchange, which has switched protocols (Exchange.IsUpgraded); the loop has its sequence follow with the first bytes of the tunnel

    protected override bool IsBodyExpected => !_expectsContinue || _bodyWanted || Exchange!.Body.Received > 0;

    public override bool IsUpgradable => _offersUpgrade;

    protected override bool ReadsWhileLent => (_sequence.IsBodyOpen || _upgraded) && Exchange!.Body.State == BodyState.Open;

    /// <summary>Takes what has come of the body along with the head. False: it is malformed already, and the request was refused.</summary>
    private bool BeginBody(LoopDriver driver, Exchange exchange, byte[] buffer, ref int start, int end)
    {
        if (!_sequence.IsBodyOpen)
        {
            exchange.Body.Begin(exchange.Head.ContentLength, Options.MaxRequestBodySize, BodyState.Complete);
            return true;
        }

        exchange.Body.Begin(exchange.Head.ContentLength, Options.MaxRequestBodySize, BodyState.Open);
        if (start < end)
        {
            start = TakeBody(exchange, buffer, start, end);
        }

        if (_sequence.Fault == Http1Fault.None)
        {
            return true;
        }

        DropExchange(driver);
        SendRefusal(driver, Http1Faults.StatusOf(_sequence.Fault));   // counted where it was found
        return false;
    }

    protected override void ProcessWhileLent(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Exchange exchange = Exchange!;
        if (_upgraded)
        {
            _sequence.Upgrade();
            exchange.Body.Feed(buffer.AsSpan(start, end - start));
            return;
        }

        start = TakeBody(exchange, buffer, start, end);
        if (start < end)
        {
            Hold(buffer.AsSpan(start, end - start));
        }
    }

    // The handler did not want the rest of the body: it is thrown away, so that the next request is found behind it.
    private int Drain(byte[] buffer, int start, int end)
    {
        int next = TakeBody(null, buffer, start, end);
        if (_sequence.Fault != Http1Fault.None)
        {
            CloseWhenSent();
        }
        else if (!CountDiscarded(next - start))
        {
            Loop.Counters.Refused(Refusal.DiscardLimit);
            _sequence.Close();
            CloseWhenSent();
        }
        else if (!_sequence.IsBodyOpen)
        {
            OnRestEnded();
        }
        else
        {
            _restLastMs = Loop.Kernel.NowMs;
        }

        return next;
    }

    // The rest of a body that nobody reads is waited for, but not for ever: a peer could make an hour of it with a byte a minute.
    protected override void BeginTimeMidRequest()
    {
        if (!_sequence.IsBodyOpen)
        {
            base.BeginTimeMidRequest();
            return;
        }

        _restSinceMs = _restLastMs = Loop.Kernel.NowMs;
        _ = MayRestCome(_restSinceMs);
    }

    // False: it takes too long. True: it is looked at again.
    private bool MayRestCome(long nowMs)
    {
        double due = Math.Min(_restSinceMs + Options.UnreadBodyTimeout.TotalMilliseconds, _restLastMs + Options.BodyTimeout.TotalMilliseconds);
        if (nowMs >= due || Rates.Body?.IsMissed(Discarded, nowMs - _restSinceMs) == true)
        {
            return false;
        }

        SetDeadline((long)Math.Min(due, nowMs + SendProgress.LookMs));
        return true;
    }

    /// <summary>Gives body bytes to the exchange, if there is one, and answers where in the buffer they end.</summary>
    private int TakeBody(Exchange? exchange, byte[] buffer, int start, int end)
    {
        while (true)
        {
            int before = _partial.Length;
            ReadOnlySpan<byte> bytes = WithPartial(buffer.AsSpan(start, end - start));
            SequenceEvent its = _sequence.Read(bytes, null!, Services.HttpLimits, out int consumed, out ByteRange piece);
            Feed(exchange, piece.Of(bytes));
            switch (its)
            {
                case SequenceEvent.NeedMore:
                    Announce(exchange);
                    if (before == 0)
                    {
                        _partial.Add(bytes[consumed..]);      // an unfinished trailer section, if anything
                    }

                    return end;
                case SequenceEvent.Body or SequenceEvent.Drained:
                    start += consumed;
                    break;
                case SequenceEvent.BodyEnd or SequenceEvent.DrainedEnd:
                    KeepTrailers(exchange, bytes);
                    DropPartial();
                    exchange?.Body.Complete();
                    return start + consumed - before;
                default:
                    DropPartial();
                    return BreakBody(exchange, _sequence.Fault, end);
            }
        }
    }

    private void Announce(Exchange? exchange)
    {
        if (_sequence.BytesAnnounced > 0 && exchange?.Body.Announce((long)Math.Min(_sequence.BytesAnnounced, long.MaxValue)) == false)
        {
            Loop.Counters.Refused(Refusal.BodyLong);
        }
    }

    private void KeepTrailers(Exchange? exchange, ReadOnlySpan<byte> bytes)
    {
        if (exchange is null || _sequence.Trailers.Length == 0)
        {
            return;
        }

        var trailers = new HeaderDictionary();
        ReadOnlySpan<byte> section = bytes[_sequence.TrailersStart..];
        foreach (ref readonly HeaderField field in _sequence.Trailers)
        {
            string name = StringTable.ForThisThread.GetFieldName(field.Name(section), out _);
            string value = StringTable.Decode(field.Value(section));
            if (!trailers.TryAdd(name, value))      // the indexer would drop an empty value
            {
                trailers[name] = StringValues.Concat(trailers[name], value);
            }
        }

        exchange.Trailers = trailers;
    }

    private void Feed(Exchange? exchange, ReadOnlySpan<byte> bytes)
    {
        if (exchange is not null && bytes.Length > 0 && !exchange.Body.Feed(bytes))
        {
            Loop.Counters.Refused(Refusal.BodyLong);
        }
    }

    // Where the body ends is lost: nothing on this connection can be trusted any more.
    private int BreakBody(Exchange? exchange, Http1Fault fault, int end)
    {
        Loop.Counters.Refused(Refusal.Of(fault));
        exchange?.Body.Break(new BadHttpRequestException($"The chunked request body is malformed: {fault}.", Http1Faults.StatusOf(fault)));
        return end;
    }

    // ---- what the exchange does, on its thread ----

    // RFC 9110 §10.1.1: the client sends its body when it sees this. Not once an answer has begun, and not when the body is there already.
    public override void OnBodyWanted(Exchange exchange)
    {
        if (_expectsContinue && exchange.Body is { State: BodyState.Open, Received: 0 })
        {
            _continueSent = exchange.Sender.SendInterim("HTTP/1.1 100 Continue\r\n\r\n"u8);
            _bodyWanted = true;     // told so by 100, or by the answer that began before
        }
    }

    public override void OnUpgraded(Exchange exchange)
    {
        _upgraded = true;
        PostResumeReading();
    }

    public override void RequestClose() => _frames.IsEndWanted = true;

    /// <summary>Whether what the handler leaves unread can be drained in reasonable time, and will come at all.</summary>
    private bool CanDrain(Exchange exchange) => exchange.Body.State switch
    {
        BodyState.Complete => true,
        BodyState.Open => (!_expectsContinue || _continueSent || exchange.Body.Received > 0)
            && Math.Max(exchange.Body.Expected, exchange.Body.Announced) - exchange.Body.Received <= Options.MaxDiscardBytes,
        _ => false,
    };

    // There are web servers that take an end between two chunks for the end of the body, and none that does so within a chunk.
    // Only a reset shows that a body is not whole which would end with the connection.
    private BreakSign SignOf(Exchange exchange) =>
        exchange.File.BytesLeft > 0 && (_frames.IsChunked || exchange.Answer.IsLengthDeclared) ? BreakSign.End
        : exchange.Answer.IsWholeToPeer ? BreakSign.None
        : exchange.Answer.IsLengthDeclared ? BreakSign.End
        : _frames.IsChunked ? BreakSign.Bytes
        : IsTcp ? BreakSign.Reset
        : BreakSign.End;

    protected override void NoteBroken(Exchange exchange)
    {
        ResetsOnClose = exchange.Life.IsUnwanted;
        BreakWhenTaken(SignOf(exchange));
        _frames.Closes = true;
    }

    // Behind a switch of protocols it closes.
    protected override bool KeepsOpen(Exchange exchange) => !_frames.Closes && !_frames.IsEndWanted && CanDrain(exchange);
}
