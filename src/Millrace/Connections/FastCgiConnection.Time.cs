// How long a FastCGI connection waits for what is missing: of a head (FastCGI 1.0 §5.2), and of a record that comes in pieces while no
// request is in progress, such as the end of a body that its handler did not wait for. That one takes nothing from the idle time.

using Millrace.Observe;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    private long _headSinceMs;       // since when it is known that more of a head must come; 0: it is not
    private long _recordSinceMs;     // when the record that comes in pieces began, be it of a head or for nobody; 0 when none does
    private long _idleUntilMs;       // when the connection will have been idle for too long, while a record comes in pieces; 0 when none does
    private long _restAtLook;        // how much had come for nobody when that was last looked at
    private long _restSinceMs;       // when that was; before the first look when the request ended whose rest it is
    private long _restUnjudged;      // what has come since its rate was last judged,
    private long _restUnjudgedMs;    // and in what time

    // What was at hand has been processed, and no handler has been called for it. Where a record has ended in it, one that is pending has
    // just begun. It has the time of a head, however little is left of the idle time; a chain of them has it once beyond the idle time.
    private void SetDeadlineOfRest()
    {
        long headMs = (long)Options.HeadTimeout.TotalMilliseconds;
        long nowMs = Loop.Kernel.NowMs;     // the turn's time may be a blocking handler old
        if (_sequence.State == SequenceState.Params)
        {
            _headSinceMs = _headSinceMs != 0 ? _headSinceMs : nowMs;
            SetDeadline(_headSinceMs + headMs);
        }
        else if (!_sequence.AtRecordStart && _recordSinceMs == 0)
        {
            _recordSinceMs = nowMs;
            _idleUntilMs = _idleUntilMs != 0 ? _idleUntilMs : IdleDeadlineMs;
            SetDeadline(Math.Min(nowMs, _idleUntilMs) + headMs);
        }
        else if (_sequence.AtRecordStart)
        {
            _recordSinceMs = 0;         // also where its padding came alone
            if (_idleUntilMs != 0)
            {
                SetDeadline(_idleUntilMs);      // it was a record for nobody: the connection is as idle as before
                _idleUntilMs = 0;
            }
        }
    }

    // A request has ended, and what had come by then is the beginning of the next one's head, or of a record: the next one's, or one for nobody.
    protected override void BeginTimeMidRequest()
    {
        base.BeginTimeMidRequest();
        long nowMs = Loop.Kernel.NowMs;
        if (_sequence.State == SequenceState.Params)
        {
            _headSinceMs = _headSinceMs != 0 ? _headSinceMs : nowMs;
        }
        else if (_sequence.State == SequenceState.Idle)
        {
            _recordSinceMs = nowMs;
            _idleUntilMs = nowMs + (long)Options.IdleTimeout.TotalMilliseconds;
        }
    }

    private void GoOnWith(byte knowledge)
    {
        _sequence.Knowledge = knowledge;
        if (knowledge != 0)
        {
            BeginRest();        // there may be one of a request that was answered elsewhere
        }
    }

    private void BeginRest()
    {
        _restAtLook = Discarded;
        _restSinceMs = Loop.Kernel.NowMs;
        _restUnjudged = _restUnjudgedMs = 0;
    }

    // What nobody reads has to come as fast as what somebody does: otherwise its connection is as idle as one that is silent. A look may come a moment late, and where the process
    // stood still so late that no more can have come than the socket held.
    private protected override bool KeepsForRest(long nowMs)
    {
        long bytes = Discarded - _restAtLook;
        _restUnjudged += bytes;
        _restUnjudgedMs += Math.Min(nowMs - _restSinceMs, SendProgress.LookMs + (long)(Options.IdleTimeout + Options.HeadTimeout).TotalMilliseconds);
        _restAtLook = Discarded;
        _restSinceMs = nowMs;
        if (EndsSoon || !IsRestComing || bytes == 0 || IsRestTooSlow())
        {
            return false;
        }

        BeginIdling();
        return true;
    }

    // Over one look or several: within the grace nothing is too slow.
    private bool IsRestTooSlow()
    {
        long passed = _restUnjudgedMs - SendProgress.LookMs;
        if (Rates.Body is not { } rate || passed <= rate.GraceMs)
        {
            return false;
        }

        bool isMissed = rate.IsMissed(_restUnjudged, passed);
        _restUnjudged = _restUnjudgedMs = 0;
        return isMissed;
    }

    protected override void OnTimeoutMidRequest(long nowMs)
    {
        if (KeepsForRest(nowMs))
        {
            return;
        }

        Loop.Counters.Refused(Refusal.HeadTimeout);
        Close(reset: false);
    }
}
