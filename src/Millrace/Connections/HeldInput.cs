// Bytes that have been received and cannot be looked at before a request has ended, the peer has read its answers, or other connections
// have had their turn. The loop's; of an exchange that runs, while the loop has it pinned.

using System.Diagnostics;
using Millrace.Platform;

namespace Millrace.Connections;

internal struct HeldInput
{
    private byte[]? _bytes;
    private int _start;
    private int _end;

    public readonly bool IsEmpty => _bytes is null;

    /// <summary>They lie in the driver's input still, and are copied only if the request before them outlives its turn.</summary>
    public bool IsInPlace { get; private set; }

    /// <summary>In a buffer of their own.</summary>
    public void Keep(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length == 0)
        {
            return;
        }

        byte[] held = BufferPool.Rent(bytes.Length);
        bytes.CopyTo(held);
        (_bytes, _start, _end) = (held, 0, bytes.Length);
    }

    /// <summary>Behind a request that is about to run, where they are: in the driver's input.</summary>
    public void KeepInPlace(byte[] input, int start, int end)
    {
        if (start < end)
        {
            (_bytes, _start, _end) = (input, start, end);
            IsInPlace = true;
        }
    }

    /// <summary>The driver's input is about to be somebody else's: what is held in it gets a buffer of its own.</summary>
    public void LeaveInput()
    {
        if (IsInPlace)
        {
            Keep(_bytes.AsSpan(_start, _end - _start));
            IsInPlace = false;
        }
    }

    /// <summary>Holds nothing any more: the buffer is its taker's, who gives it back when it has been processed: whatever outlives that has bytes of its own.</summary>
    public bool TryTake(out byte[] bytes, out int start, out int end)
    {
        Debug.Assert(!IsInPlace, "The driver's input is not the taker's to give back.");
        (bytes, start, end) = (_bytes!, _start, _end);
        _bytes = null;
        return bytes is not null;
    }

    /// <summary>Holds nothing any more: nobody wants it, or whoever held it goes on with it.</summary>
    public void Drop()
    {
        if (_bytes is { } held)
        {
            _bytes = null;
            if (!IsInPlace)
            {
                BufferPool.Return(held);
            }
        }

        IsInPlace = false;
    }
}
