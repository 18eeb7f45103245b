// The end of a session's request: what it has changed goes to the store, unless it is in the cookie.

using Millrace.Sessions.Observe;

namespace Millrace.Sessions;

internal sealed partial class MillraceSession
{
    // Each time somebody else has stored something.
    private const int MergesMax = 64;

    public async Task CommitAsync(CancellationToken cancellationToken = default)
    {
        if (_origin is Origin.NotLoaded or Origin.Unavailable || _hasEnded)
        {
            return;
        }
        if (!NeedsStore())
        {
            await EndReplacedAsync(cancellationToken).ConfigureAwait(false);
            if (_origin == Origin.Store)
            {
                await _scheme.TouchAsync(_key).ConfigureAwait(false);
            }
            return;
        }
        byte[] values = _values.ToBytes();
        if (values.Length > _scheme.Options.EffectiveSessionBytesMax)
        {
            TooLarge(values.Length);
            return;
        }
        SessionWriteResult result = await WriteAsync(values, cancellationToken).ConfigureAwait(false);
        Stored(result, values.Length);
    }

    /// <summary>The request has ended: what it has changed is stored, and nothing that comes later is.</summary>
    public async Task EndAsync()
    {
        try
        {
            if (_origin != Origin.NotLoaded)
            {
                await CommitAsync().ConfigureAwait(false);
            }
            else if (TryBegin(out _))
            {
                await _scheme.TouchAsync(_key).ConfigureAwait(false);
            }
            else
            {
                _origin = Origin.NotLoaded;     // and stays so
            }
        }
        finally
        {
            _hasEnded = true;
        }
    }

    private bool NeedsStore() => _origin switch
    {
        Origin.Seal => true,
        Origin.Store => _values.IsChanged,
        _ => (_values.IsChanged || _replaced is not null) && !IsInCookie() && !(_values.Count == 0 && _sealedRevision < 0),
    };

    // Or will be: the head is made when the request has ended.
    private bool IsInCookie() => !_mustStore && (_sealedRevision == _values.Revision || (_cookie is { IsHeadOpen: true } && _scheme.MayBeSealed(_values.ToBytes().Length)));

    private async ValueTask<SessionWriteResult> WriteAsync(byte[] values, CancellationToken ct)
    {
        WriteCondition condition = _origin == Origin.Store ? WriteCondition.Unchanged : WriteCondition.Absent;
        object? expected = _tag;
        bool isMerged = false;
        for (int i = 0; ; i++)
        {
            SessionWriteResult result = await _scheme.Services.WriteAsync(Write(values, condition, expected, isMerged), _scheme.Options.IOTimeout, ct).ConfigureAwait(false);
            if (result.Outcome != WriteOutcome.Conflict || condition == WriteCondition.Any)
            {
                return result;
            }
            _scheme.Services.Counters.Conflict();
            _isPromotedByAnother = _origin == Origin.Seal;
            if (_isFromSeal && !_values.IsChanged)
            {
                return new SessionWriteResult(WriteOutcome.Stored, result.Tag);      // another request has stored the same
            }
            condition = WriteCondition.Any;
            if (!_isFromSeal && _scheme.Options.ConcurrentWrites != ConcurrentWrites.MergeKeys)
            {
                continue;
            }
            if (i == MergesMax)
            {
                throw new InvalidOperationException($"The session was changed by others {MergesMax} times while it was to be stored.");
            }
            if (await _scheme.Services.LoadAnewAsync(_key, _scheme.Options.IOTimeout, ct).ConfigureAwait(false) is { HasEnded: false } current)
            {
                values = _values.AppliedTo(current.Values.Span).ToBytes();
                isMerged = true;
                condition = WriteCondition.Unchanged;
                expected = current.Tag;
                if (values.Length > _scheme.Options.EffectiveSessionBytesMax)
                {
                    return new SessionWriteResult(WriteOutcome.TooLarge, null);
                }
            }
        }
    }

    private SessionWrite Write(byte[] values, WriteCondition condition, object? expected, bool isMerged)
    {
        uint seal = isMerged ? 0 : _origin == Origin.Seal && !_values.IsChanged ? _sealBefore : _sealedRevision == _values.Revision ? _seal : 0;
        if (_seal != 0 && seal != _seal)
        {
            _scheme.Services.Spent.Add(Key, _seal);     // the response has it, and it is not what is stored
        }
        return new SessionWrite(Key, values, condition, expected, _scheme.Options.IdleTimeout, _cookie?.Client ?? default, seal, _sealBefore, _replaced);
    }

    private void Stored(SessionWriteResult result, int bytes)
    {
        switch (result.Outcome)
        {
            case WriteOutcome.TooLarge:
                TooLarge(bytes);
                return;
            case WriteOutcome.Ended:
                _scheme.Services.Counters.Rejected(WriteRejection.Ended);
                return;
            case WriteOutcome.Stored when (_origin == Origin.Seal && !_isPromotedByAnother) || (_origin == Origin.New && _sealedRevision >= 0):
                _scheme.Services.Counters.Promoted();
                break;
            case WriteOutcome.Stored when _origin == Origin.New && _replaced is null:
                _scheme.Services.Counters.Stored();
                break;
            default:
                break;
        }
        if (_replaced is { } before)
        {
            _scheme.Services.Spent.Add(before);
        }
        if (_isSealHeld && _values.IsChanged && !_scheme.IsLocal)
        {
            _scheme.Services.Spent.Add(_key);
        }
        _replaced = null;
        _mustStore = true;
        _origin = Origin.Store;
        _tag = result.Tag;
        _values.BecomeUnchanged();
    }

    private async ValueTask EndReplacedAsync(CancellationToken ct)
    {
        if (_replaced is { } before)
        {
            _scheme.Services.Spent.Add(before);
            await _scheme.Services.EndAsync(before, _scheme.SealValidity, _scheme.Options.IOTimeout, ct).ConfigureAwait(false);
            _replaced = null;
        }
    }

    private void TooLarge(int bytes)
    {
        _scheme.Services.Counters.Rejected(WriteRejection.TooLarge);
        _scheme.Services.Log.TooLarge(bytes, _scheme.Options.EffectiveSessionBytesMax);
    }
}
