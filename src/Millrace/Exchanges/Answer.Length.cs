// How long an answer says that it is, and how long it is: never more bytes than Content-Length announces, and never fewer that pass for all.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Exchanges;

internal sealed partial class Answer
{
    private long _declared = -1;
    private long _written;

    /// <summary>Body bytes written so far.</summary>
    public long Written => _written;

    /// <summary>The head says how long the body is.</summary>
    public bool IsLengthDeclared => HasStarted && _declared >= 0;

    /// <summary>As HTTP counts it the response is whole: the announced length is written, or there is no body. Read by the loop.</summary>
    public bool IsWholeToPeer => HasStarted && (SuppressesBody || (_declared >= 0 && Volatile.Read(ref _written) >= _declared));

    // Nothing more will be written: it has its end, or a body that is as long as announced.
    private bool IsAllThere => IsWritten || (HasStarted && _declared > 0 && Volatile.Read(ref _written) >= _declared && !SuppressesBody);

    /// <summary>The same, also where the head has not been written: of HEAD one that says how long the body would be. Within the gate, or when it is closed.</summary>
    public bool IsWhole => (SuppressesBody && (HasStarted || Announced >= 0)) || HasNoBodyStatus || (Announced is >= 0 and var announced && _written >= announced);

    // ---- the head ----

    // RFC 9110 §8.6, §15.3.6: a response with 204 has no length, and one with 205 that of 0. What the application has announced would never come.
    private void CheckMayHaveLength()
    {
        if (StatusCode is 204 or 205 && Headers.DeclaredLength > 0)
        {
            throw new InvalidOperationException($"A response with status code {StatusCode} has no body, and no Content-Length other than 0.");
        }
    }

    // RFC 9112 §6.3: what lies beyond the length would be read as the next response. It may have been set when bytes had been written.
    private void CheckDeclared(int coming)
    {
        if (_declared >= 0 && _written + coming > _declared && (!SuppressesBody || (coming > 0 && exchange.Head.IsHead)))
        {
            ThrowTooMany(_written + coming, _declared);
        }
    }

    [DoesNotReturn]
    private static void ThrowTooMany(long written, long declared) =>
        throw new InvalidOperationException($"Response Content-Length mismatch: too many bytes written ({written} of {declared}).");

    // By the head, or by the fields that will be in it; -1 where nothing is said.
    private long Announced => HasStarted ? _declared : Headers.DeclaredLength;

    // ---- the body ----

    /// <summary>RFC 9112 §6.3: never more bytes than Content-Length promised.</summary>
    /// <param name="count">Bytes that are about to be written.</param>
    /// <param name="isAdvanced">They are advanced over: ahead of the head they are left out of a response that has no body, as on Kestrel. Its status may still change.</param>
    public void Count(long count, bool isAdvanced = false)
    {
        if (count == 0)
        {
            return;
        }

        CheckCount(count, isAdvanced);
        _written += count;
    }

    /// <summary>The application writes so many bytes: behind its time limit it goes on. What it has begun before, and what is written only now, says nothing.</summary>
    public void NoteWrite(long count) => _hasLateBytes |= count > 0 && exchange.Life.HasTimedOut;

    public void CheckCount(long count, bool isAdvanced = false)
    {
        if (HasNoBodyStatus && !exchange.Head.IsHead && (HasStarted || !isAdvanced))
        {
            throw new InvalidOperationException($"Writing to the response body is invalid for responses with status code {StatusCode}.");
        }

        long declared = Announced;
        if (declared >= 0 && _written + count > declared)
        {
            ThrowTooMany(_written + count, declared);
        }
    }

    // ---- the end ----

    /// <summary>For an application that says so: whether the response is as long as it was announced. Within the gate.</summary>
    /// <exception cref="InvalidOperationException">Bytes are missing.</exception>
    public void CheckWhole()
    {
        if (!HasStarted)
        {
            CheckMayHaveLength();
        }

        long declared = Announced;
        if (_written < declared && !IsLengthLeftOut && !exchange.HasFailed && !exchange.Order.HasFollowers)
        {
            throw new InvalidOperationException(MismatchText(declared));
        }
    }

    /// <summary>In what way less has been written than the head has announced; null where nothing is missing.</summary>
    public string? Missing => _declared >= 0 && _written < _declared && !SuppressesBody ? MismatchText(_declared) : null;

    /// <summary>The same where the head has not been written, and what the fields announce is <paramref name="declared"/>.</summary>
    public string? MissingOf(long declared) => declared >= 0 && _written < declared && !exchange.Head.IsHead && !HasNoBodyStatus ? MismatchText(declared) : null;

    private string MismatchText(long declared) => $"Response Content-Length mismatch: too few bytes written ({_written} of {declared}).";

    /// <summary>Under the send lock, before all that has been written is sent: with the last of it the peer may leave at once, and has aborted nothing. One that has the head alone, as of HEAD, may leave a handler that knows no end but this.</summary>
    /// <param name="isFile">The rest of a file comes along.</param>
    public void NoteWhole(bool isFile = false)
    {
        if (IsAllThere && (isFile || exchange.File.BytesLeft == 0) && !exchange.IsBroken && !exchange.IsUpgraded)
        {
            exchange.Life.NoteWhole(true);
        }
    }

    /// <summary>The same behind bytes of which the socket has not taken all: some are missing yet.</summary>
    public void NoteStuck()
    {
        if (IsAllThere)
        {
            exchange.Life.NoteWhole(false);
        }
    }

    private void ResetLength()
    {
        _declared = -1;
        _written = 0;
    }
}
