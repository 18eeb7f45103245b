// A FastCGI connection, the receiving half: what becomes of the records of the web server, and the request they make. Bytes
// and their sequence are read in Protocols/FastCgi, variables in Protocols/Cgi, and what a handler sees is in Exchanges/. The
// sending half is in FastCgiSendingConnection.cs, what is answered without a handler in FastCgiConnection.Respond.cs, a request
// that waits for its turn in FastCgiConnection.Queue.cs, how long it waits for what is missing in FastCgiConnection.Time.cs, what
// follows a response that failed in FastCgiConnection.Break.cs.
//
// How far a request has arrived, and what a record means then, is the RequestSequence's to say.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel> : FastCgiSendingConnection<TKernel>
    where TKernel : struct, IKernel
{
    private RequestSequence _sequence;      // the loop's; an exchange reads it as it ends (KeepsOpen, HasNextRequest), and what the loop changes meanwhile it has pinned or noted
    private bool _endsAtRecord;      // the response that failed: all of its last record is in the output
    private bool _isGivenUp;         // ... and nobody waited for it any more when it did: what was given up is broken only where half a file, or a write that nobody has awaited, lies before the end

    private GatheredBytes _query;    // GET_VALUES that comes in pieces

    public FastCgiConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp)
        : this(loop, descriptor, isTcp, new FastCgiFraming(isTcp))
    {
    }

    private FastCgiConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, FastCgiFraming frames)
        : base(loop, descriptor, isTcp, frames)
    {
    }

    protected override bool IsFastCgi => true;

    // The front server reports both addresses with each request; the socket's own say nothing about the client.
    public override System.Net.IPEndPoint? RemoteEndPoint => null;

    public override System.Net.IPEndPoint? LocalEndPoint => null;

    protected override bool ReadsWhileLent => !_sequence.HasNext && !_sequence.IsLost;

    protected override bool HasNextRequest => _sequence.HasNext || (_sequence.State == SequenceState.Whole && !_sequence.AtRecordStart);

    protected override bool IsMidRequest => _sequence.IsMidRequest;

    protected override bool IsRestComing => _sequence.IsRestComing;

    protected override bool IsAtRest => !_sequence.IsMidRequest;

    protected override byte Knowledge { get => _sequence.Knowledge; set => GoOnWith(value); }

    protected override byte[] Peer => [];

    protected override bool MayHaveMoreInput => _sequence.MayMoreCome;

    private bool HasHead => _sequence.State is SequenceState.Stdin or SequenceState.Whole;

    private ResponseProgress Progress =>
        !_isDispatched ? ResponseProgress.None
        : Exchange!.Answer.IsWritten || Exchange.Life.IsGivenUp ? ResponseProgress.Over
        : Exchange.Answer.IsWholeToPeer ? ResponseProgress.Whole
        : ResponseProgress.Awaited;

    protected override bool KeepsOpen(Exchange exchange) => _sequence.KeepsConnection && !_sequence.ClosesBehind;

    protected override void NoteBroken(Exchange exchange)
    {
        if (!exchange.Life.IsUseless)
        {
            BreakWhenTaken(IsTcp && !exchange.IsUnanswered ? BreakSign.Reset : BreakSign.Bytes);
            _endsAtRecord = !IsTcp || exchange.File.BytesLeft == 0;
            _isGivenUp = exchange.Life.IsGivenUp;
        }
    }

    // ---- reading ----

    protected override bool Process(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Debug.Assert(!_isDispatched);
        if (buffer == driver.Input)
        {
            _sequence.NoteRead();       // what was held came before
        }

        bool wasRestComing = IsRestComing;
        while (start < end && !IsClosed)
        {
            if (IsClosing)
            {
                return true;    // the rest is for nobody
            }

            if (!Take(driver, buffer, ref start, end))
            {
                break;
            }

            _recordSinceMs = _sequence.AtRecordStart ? 0 : _recordSinceMs;
            if (_sequence.State == SequenceState.Whole && !_sequence.IsGivenUpBy(buffer.AsSpan(start, end - start)))
            {
                return Start(driver, buffer, start, end);
            }

            // Not behind a head: its request has the driver's output, and lies in the buffer.
            if (!HasHead && driver.Output.Length > OutputBuffer.SendAt)
            {
                SendDriverOutput(driver);
                if (Stage == Stage.Sending)
                {
                    _params.Keep(buffer);
                    Hold(buffer.AsSpan(start, end - start));
                    return true;
                }
            }
        }

        if (IsClosed)
        {
            return true;
        }

        if (HasHead)
        {
            return Start(driver, buffer, end, end);
        }

        if (_sequence.State == SequenceState.Params)
        {
            _params.Keep(buffer);
        }

        SetDeadlineOfRest();
        if (wasRestComing && !IsRestComing)
        {
            OnRestEnded();
        }

        return true;
    }

    protected override void ProcessWhileLent(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Debug.Assert(IsRunning);
        while (start < end && !_sequence.HasNext && Take(driver, buffer, ref start, end))
        {
        }

        if (_sequence.HasNext && start < end)
        {
            Hold(buffer.AsSpan(start, end - start));
        }

        if (!_sequence.AtRecordStart && Exchange!.Body.State == BodyState.Complete)
        {
            NoteInput();        // the next request may have begun: when this one ends, its head has the time for a head, not that of an idle connection
        }
    }

    /// <summary>Does what the next event asks for. False: more must come, or nothing can.</summary>
    private bool Take(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        SequenceEvent its = _sequence.Read(buffer.AsSpan(start, end - start), Progress, out int consumed, out RecordPart part);
        int at = start + part.Start;
        start += consumed;
        switch (its)
        {
            case SequenceEvent.NeedMore:
                return false;
            case SequenceEvent.Faulty:
                EndForFault(driver, Refusal.Of(_sequence.Fault), detail: "");      // bytes that are no records: that is all there is to say
                return false;
            case SequenceEvent.Begun:
                BeginParams();
                break;
            case SequenceEvent.Params:
                TakeParams(driver, part, buffer, at);
                break;
            case SequenceEvent.ParamsEnd:
                FinishHead(driver, buffer);
                break;
            case SequenceEvent.Stdin:
                TakeStdin(buffer.AsSpan(at, part.Length));
                break;
            case SequenceEvent.StdinEnd:
                FinishStdin();
                break;
            case SequenceEvent.Aborted:
                Loop.Counters.Aborts++;
                TakeAbort(driver);
                break;
            case SequenceEvent.NextBegun:
                NoteInput();
                LeaveBody();
                break;
            case SequenceEvent.NextBegunInstead:
                Loop.Counters.Aborts++;
                TakeNextInstead(driver);
                break;
            case SequenceEvent.Multiplexed:
                Loop.Counters.Refused(Refusal.Multiplexed);
                SendEndRequest(driver, part.RequestId, ProtocolStatus.CannotMultiplex);
                break;
            case SequenceEvent.UnknownRole:
                RefuseRole(driver, part.RequestId);
                break;
            case SequenceEvent.Values:
                _query.Add(buffer.AsSpan(at, part.Length));
                break;
            case SequenceEvent.ValuesEnd:
                AnswerValues(driver, buffer.AsSpan(at, part.Length), isWhole: part.IsFirst);
                break;
            case SequenceEvent.UnknownType:
                Skip(driver, part);
                RefuseType(driver, part.Type);
                break;
            case SequenceEvent.Skipped:
                Skip(driver, part);
                break;
            case SequenceEvent.BeginFaulty or SequenceEvent.BegunTwice or SequenceEvent.StdinTooEarly:
                EndForFault(driver, Refusal.Of(_sequence.Fault));
                return false;
        }

        return true;
    }

    // ---- STDIN, §5.3 ----

    private void TakeStdin(ReadOnlySpan<byte> bytes)
    {
        if (!Exchange!.Body.Feed(bytes))
        {
            Loop.Counters.Refused(Refusal.BodyLong);
        }
    }

    private void FinishStdin()
    {
        if (!Exchange!.Body.Complete())
        {
            Loop.Counters.Refused(Refusal.BodyShort);
        }
    }

    // ---- the others ----

    private void TakeAbort(LoopDriver driver)
    {
        if (_isDispatched)
        {
            GiveUpDispatched("The front server aborted the request.");
        }
        else
        {
            EndUnrun(driver, ProtocolStatus.RequestComplete);
        }
    }

    // The request will not be run, and has no response but this.
    private void EndUnrun(LoopDriver driver, ProtocolStatus status)
    {
        DropRequest(driver);
        SendEndRequest(driver, _sequence.Id, status);
        if (!_sequence.KeepsConnection)
        {
            CloseWhenSent();
        }
    }

    private void GiveUpDispatched(string message)
    {
        Exchange!.Life.GiveUp();     // before whoever reads hears of it. A write that waits for the socket goes on waiting: the record that has begun is sent to its end
        Exchange.Body.Break(new IOException(message));
    }

    private void AnswerValues(LoopDriver driver, ReadOnlySpan<byte> content, bool isWhole)
    {
        if (!isWhole)
        {
            _query.Add(content);
            content = _query.Bytes;
        }

        Span<byte> result = stackalloc byte[ManagementValues.ResultSizeMax];
        int requests = Math.Min(Services.Gate?.Limit ?? Options.MaxConnections, Options.MaxConnections);
        int size = ManagementValues.WriteResult(content, Options.MaxConnections, requests, multiplexes: false, result);
        QueueControl(driver, result[..size]);
        if (result[..size].IndexOf("FCGI_MPXS_CONNS"u8) >= 0)
        {
            _sequence.TellOneAtATime();
        }

        _query.Drop();
    }

    private void RefuseType(LoopDriver driver, RecordType type)
    {
        Loop.Counters.Refused(Refusal.UnknownType);
        Span<byte> record = stackalloc byte[RecordHeader.Size + UnknownType.Size];
        RecordHeader.Write(record, RecordType.UnknownType, RecordHeader.NullRequestId, UnknownType.Size, 0);
        UnknownType.Write(record[RecordHeader.Size..], (byte)type);
        QueueControl(driver, record);
    }

    // Records for requests that are over or never began, and types that have no meaning here: skipped, but not without end.
    private void Skip(LoopDriver driver, in RecordPart part)
    {
        if (!CountDiscarded(part.Length + (part.IsFirst ? RecordHeader.Size : 0)))
        {
            EndForFault(driver, Refusal.DiscardLimit);
        }
    }

    // ---- running ----

    private bool Start(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Hold(buffer.AsSpan(start, end - start));
        _isDispatched = true;
        ResetDiscarded();
        Exchange!.BeginBehindOutput();      // what has been answered behind its head
        return Dispatch(driver, Exchange);
    }

    /// <summary>The connection is of no further use: framing or sequence is lost, or too much comes for nobody. What has been answered leaves.</summary>
    private void EndForFault(LoopDriver driver, string refusal, string? detail = null)
    {
        Loop.Counters.Refused(refusal);
        if (IsRunning)
        {
            NoteInput();        // an answer that ends just now leaves the connection to the loop, which closes it
            Exchange!.Body.Break(new IOException($"The front server broke the FastCGI protocol{detail ?? $" ({refusal})"}."));
            BreakOffNow(Exchange);
        }
        else if (Stage == Stage.Queued)
        {
            CloseInQueue(driver);
        }
        else if (driver.Output.IsEmpty)
        {
            Close(reset: false);
        }
        else
        {
            if (_sequence.State != SequenceState.Idle)
            {
                DropRequest(driver);
            }

            CloseWhenSent();
        }
    }

    // A request that was being received and will not be run: the time for its head is none for the connection.
    private void DropRequest(LoopDriver driver)
    {
        _isDispatched = false;
        _sequence.Drop();
        ResetDiscarded();
        BeginRest();
        SetDeadline(Options.IdleTimeout);
        _params.Drop();
        if (Exchange is { } exchange)
        {
            Exchange = null;
            if (exchange.Reset())
            {
                driver.Return(exchange);
            }
        }
    }

    protected override void OnClosed(bool wasQueued)
    {
        _params.Drop();
        _query.Drop();
        if (Exchange is { } exchange && (!_isDispatched || wasQueued))
        {
            exchange.Reset();
            Exchange = null;
        }

        _isDispatched = false;       // what is still answered in this turn goes nowhere
    }
}
