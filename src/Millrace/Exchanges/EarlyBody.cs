// Body bytes written before the head. A buffer of the usual size is kept from request to request.

using System.Runtime.CompilerServices;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal struct EarlyBody
{
    private const int Size = 4096;
    private const int KeptMax = 64 * 1024;

    private byte[]? _bytes;
    private byte[]? _kept;          // where the next request's begin

    public int Length { get; set; }

    public readonly int BytesHeld => _bytes?.Length ?? 0;

    /// <summary>Room for so many bytes at least, behind all there is.</summary>
    public Span<byte> Reserve(int size)
    {
        _bytes ??= _kept;
        if (_bytes is null || _bytes.Length - Length < size)
        {
            Grow(size);
        }

        return _bytes.AsSpan(Length);
    }

    public void Append(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(Reserve(bytes.Length));
        Length += bytes.Length;
    }

    public readonly ReadOnlySpan<byte> Part(int start, int count) => _bytes.AsSpan(start, count);

    /// <summary>All there is, for whoever writes it behind the head. It stays where it is until the end of the request.</summary>
    public ReadOnlySpan<byte> Take()
    {
        ReadOnlySpan<byte> all = _bytes.AsSpan(0, Length);
        Length = 0;
        return all;
    }

    public void Drop() => Length = 0;

    // What is outgrown is not used again, and a large one not before the end of the request: the handler may have a span of it still.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Grow(int size)
    {
        long needed = (long)Length + size;
        if (needed > Array.MaxLength)
        {
            throw new InvalidOperationException("A response part is larger than 2 GiB; flush in between.");
        }

        int wanted = (int)Math.Min(Array.MaxLength, Math.Max(Math.Max(Size, (_bytes?.Length ?? 0) * 2L), needed));
        byte[] larger = wanted > KeptMax ? BufferPool.Rent(wanted) : new byte[wanted];
        _bytes.AsSpan(0, Length).CopyTo(larger);
        _bytes = larger;
    }

    public void Reset()
    {
        if (_bytes is { Length: > KeptMax } large)
        {
            BufferPool.Return(large);
        }
        else
        {
            _kept = _bytes ?? _kept;
        }

        _bytes = null;
        Length = 0;
    }
}
