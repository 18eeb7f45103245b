// How long a response says that it is, and how long it is: never more bytes than Content-Length announces, and never fewer that pass for all.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    // ---- the head ----

    // RFC 9110 §8.6, §15.3.6: a response with 204 has no length, and one with 205 that of 0. What the application has announced would never come.
    private void CheckMayHaveLength()
    {
        if (StatusCode is 204 or 205 && ResponseHeaders.DeclaredLength > 0)
        {
            throw new InvalidOperationException($"A response with status code {StatusCode} has no body, and no Content-Length other than 0.");
        }
    }

    // RFC 9112 §6.3: what lies beyond the length would be read as the next response. It may have been set when bytes had been written.
    private void CheckDeclared(int coming)
    {
        if (_declared >= 0 && _written + coming > _declared && (!SuppressesBody || (coming > 0 && Head.IsHead)))
        {
            ThrowTooMany(_written + coming);
        }
    }

    [DoesNotReturn]
    private void ThrowTooMany(long written) =>
        throw new InvalidOperationException($"Response Content-Length mismatch: too many bytes written ({written} of {_declared}).");

    // ---- the body ----

    // RFC 9112 §6.3: never more bytes than Content-Length promised. What is advanced over ahead of the head is left out of a response
    // that has no body, as on Kestrel: its status may still change.
    private void Count(int count, bool isAdvanced = false)
    {
        if (count == 0)
        {
            return;
        }

        CheckCount(count, isAdvanced);
        _written += count;
    }

    private void CheckCount(long count, bool isAdvanced = false)
    {
        if (HasNoBodyStatus && !Head.IsHead && (HasStarted || !isAdvanced))
        {
            throw new InvalidOperationException($"Writing to the response body is invalid for responses with status code {StatusCode}.");
        }

        long declared = HasStarted ? _declared : ResponseHeaders.DeclaredLength;
        if (declared >= 0 && _written + count > declared)
        {
            throw new InvalidOperationException(
                $"Response Content-Length mismatch: too many bytes written ({_written + count} of {declared}).");
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

        long declared = HasStarted ? _declared : ResponseHeaders.DeclaredLength;
        if (_written < declared && !Head.IsHead && !HasNoBodyStatus && !OpensTunnel && !Life.IsAborted && _failure is null && !_order.HasFollowers)
        {
            throw new InvalidOperationException(MismatchText(declared));
        }
    }

    private string MismatchText(long declared) => $"Response Content-Length mismatch: too few bytes written ({_written} of {declared}).";
}
