// The end of a session's request: what it has changed goes to the store, unless it is in the cookie.

using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;
using Millrace.Sessions.Values;

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
        await StoreAsync(cancellationToken).ConfigureAwait(false);
    }

    // A seal beside the store's copy is given out when that is stored, and not before: what is refused, or merged with what another request has stored, is in no cookie.
    private async ValueTask StoreAsync(CancellationToken ct)
    {
        byte[] values = _values.ToBytes();
        if (values.Length > _scheme.Options.EffectiveSessionBytesMax)
        {
            TooLarge(values.Length);
            await EndReplacedAsync(ct).ConfigureAwait(false);
            return;
        }
        uint seal = MayBeResealed() && _cookie!.TryRegister(this) ? SessionSeal.NewSerial() : 0;
        bool isChanged = _values.IsChanged;
        (SessionWriteResult result, SessionWrite? write) = await WriteAsync(values, seal, ct).ConfigureAwait(false);
        Stored(result, write?.Values.Length ?? values.Length, isChanged);
        if (result.Outcome != WriteOutcome.Stored)
        {
            await EndReplacedAsync(ct).ConfigureAwait(false);
        }
        else if (write is not null)
        {
            _sealBefore = write.Seal;
            _resealed = seal != 0 && write.Seal == seal ? new UnsealedValues(write.Values, seal) : null;
            _resealedCookie = null;
        }
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
            else if (TryBegin(out string? seal))
            {
                await EndUnusedAsync(seal).ConfigureAwait(false);
            }
            else
            {
                _origin = Origin.NotLoaded;     // and stays so
            }
        }
        finally
        {
            _hasEnded = true;
            _cookie?.End();
        }
    }

    // Values that are in the cookie alone are as old as that: their client is here, so they are kept as if he had used them.
    private async Task EndUnusedAsync(string? seal)
    {
        if (seal is not null && _scheme.IsSealAging(_token, seal))
        {
            await LoadAsync().ConfigureAwait(false);
            await CommitAsync().ConfigureAwait(false);
        }
        else
        {
            await _scheme.TouchAsync(_key).ConfigureAwait(false);
        }
    }

    private bool NeedsStore() => !_isRefused && _origin switch
    {
        Origin.Seal => true,
        Origin.Store => _values.IsChanged,
        _ => (_values.IsChanged || _replaced is not null) && !IsInCookie() && !(_values.Count == 0 && _sealedRevision < 0),
    };

    // Or will be: the head is made when the request has ended.
    private bool IsInCookie() => !_mustStore && (_sealedRevision == _values.Revision || (_cookie is { IsHeadOpen: true } && _scheme.MayBeSealed(_values.Size)));

    // Without a write: another request has stored the same.
    private async ValueTask<(SessionWriteResult Result, SessionWrite? Write)> WriteAsync(byte[] values, uint seal, CancellationToken ct)
    {
        WriteCondition condition = _origin == Origin.Store ? WriteCondition.Unchanged : WriteCondition.Absent;
        object? expected = _tag;
        SessionValues? merged = null;
        for (int i = 0; ; i++)
        {
            SessionWrite write = Write(values, condition, expected, seal);
            SessionWriteResult result = await _scheme.Services.WriteAsync(write, _scheme.Options.IOTimeout, ct).ConfigureAwait(false);
            if (result.Outcome != WriteOutcome.Conflict || condition == WriteCondition.Any)
            {
                _values = result.Outcome == WriteOutcome.Stored && merged is not null ? merged : _values;       // with what others have changed: the next write of this request is to keep it
                return (result, write);
            }
            _scheme.Services.Counters.Conflict();
            _isPromotedByAnother = _origin == Origin.Seal;
            if (_isFromSeal && !_values.IsChanged)
            {
                return (new SessionWriteResult(WriteOutcome.Stored, result.Tag), null);
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
                merged = _values.AppliedTo(current.Values);
                values = merged.ToBytes();
                condition = WriteCondition.Unchanged;
                expected = current.Tag;
                if (values.Length > _scheme.Options.EffectiveSessionBytesMax)
                {
                    return (new SessionWriteResult(WriteOutcome.TooLarge, null), write with { Values = values });
                }
            }
        }
    }

    private SessionWrite Write(byte[] values, WriteCondition condition, object? expected, uint seal) => new(
        Key, values, condition, expected, _scheme.Options.IdleTimeout, _cookie?.Client ?? default,
        Seal: _origin == Origin.Seal && !_values.IsChanged ? _sealBefore : _scheme.MayBeSealed(values.Length) ? seal : 0,
        SealBefore: _sealBefore,
        Replaces: _replaced);

    private void Stored(SessionWriteResult result, int bytes, bool isChanged)
    {
        switch (result.Outcome)
        {
            case WriteOutcome.TooLarge:
                TooLarge(bytes);
                return;
            case WriteOutcome.Ended:
                _scheme.Services.Counters.Rejected(WriteRejection.Ended);
                _isRefused = true;
                return;
            case WriteOutcome.Stored when (_origin == Origin.Seal && !_isPromotedByAnother) || (_origin == Origin.New && _sealedRevision >= 0 && _replaced is null):
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
        if (_isSealHeld && isChanged && !_scheme.IsLocal)
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
            await _scheme.Services.EndAsync(before, _scheme.SealValidity + SpentSeals.Margin, _scheme.Options.IOTimeout, ct).ConfigureAwait(false);
            _replaced = null;
        }
    }

    private void TooLarge(int bytes)
    {
        _scheme.Services.Counters.Rejected(WriteRejection.TooLarge);
        _scheme.Services.Log.TooLarge(bytes, _scheme.Options.EffectiveSessionBytesMax);
    }
}
