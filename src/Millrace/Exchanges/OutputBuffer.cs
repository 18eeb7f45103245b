// Bytes on their way to a socket. A driver has one and builds the responses of one connection after the other in it; an
// exchange that outlives its turn takes it along.
//
//   [0 .. Start) sent   [Start .. End) to be sent   [End ..) free
//   ChunkStart: where the STDOUT record or HTTP chunk under construction begins, -1 when none is open

using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed class OutputBuffer
{
    /// <summary>Bytes at which a response is sent on rather than collected further.</summary>
    public const int SendAt = 32 * 1024;

    private const int InitialSize = SendAt + 4096;
    private const int KeptSizeMax = 256 * 1024;

    public byte[] Bytes { get; private set; } = GC.AllocateUninitializedArray<byte>(InitialSize);

    public int Start { get; set; }

    public int End { get; set; }

    public int ChunkStart { get; set; } = -1;

    /// <summary>Where the response begins that was begun last; negative when so many bytes of it have been sent and forgotten.</summary>
    public long ResponseStart { get; set; }

    /// <summary>Where a record or chunk begins: from here on, to the end or to <see cref="ChunkStart"/>, they lie one behind the other. Of any use
    /// only to a protocol that knows that there are some.</summary>
    public int FrameStart { get; set; }

    public int Length => End - Start;

    public bool IsEmpty => End == Start;

    /// <summary>Room for at least <paramref name="size"/> bytes at the end.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public Span<byte> Reserve(int size)
    {
        if (Bytes.Length - End < size)
        {
            Grow(size);
        }

        return Bytes.AsSpan(End);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Append(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(Reserve(bytes.Length));
        End += bytes.Length;
    }

    /// <summary>What another one has left to send goes behind all that is here. No chunk is open in either, and <see cref="FrameStart"/> of the other
    /// has not been sent.</summary>
    public void AppendRest(OutputBuffer other)
    {
        int shift = End - other.Start;
        Append(other.Bytes.AsSpan(other.Start, other.Length));
        ResponseStart = other.ResponseStart + shift;
        FrameStart = Math.Max(0, other.FrameStart + shift);
    }

    public void Clear()
    {
        Start = End = FrameStart = 0;
        ResponseStart = 0;
        ChunkStart = -1;
        if (Bytes.Length > KeptSizeMax)
        {
            Bytes = GC.AllocateUninitializedArray<byte>(InitialSize);
        }
    }

    /// <summary>Forgets what has been sent; only when no chunk is open or everything before it has been sent.</summary>
    public void Compact()
    {
        if (Start == 0)
        {
            return;
        }

        if (Start < End)
        {
            Buffer.BlockCopy(Bytes, Start, Bytes, 0, End - Start);
        }

        if (ChunkStart >= 0)
        {
            ChunkStart -= Start;
        }

        ResponseStart -= Start;
        FrameStart = Start == End ? 0 : Math.Max(0, FrameStart - Start);
        End -= Start;
        Start = 0;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Grow(int size)
    {
        long needed = (long)End + size;
        if (needed > Array.MaxLength)
        {
            throw new InvalidOperationException("A response part is larger than 2 GiB; flush in between.");
        }

        byte[] larger = GC.AllocateUninitializedArray<byte>((int)Math.Min(Array.MaxLength, Math.Max(needed, Bytes.Length * 2L)));
        Buffer.BlockCopy(Bytes, 0, larger, 0, End);
        Bytes = larger;
    }
}
