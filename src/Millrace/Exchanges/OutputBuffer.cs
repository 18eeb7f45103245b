// Bytes on their way to a socket. A driver has one and builds the responses of one connection after the other in it; an
// exchange that outlives its turn has one of its own, which has memory only while there are bytes in it.
//
//   [0 .. Start) sent   [Start .. End) to be sent   [End ..) free
//   ChunkStart: where the STDOUT record or HTTP chunk under construction begins, -1 when none is open

using System.Runtime.CompilerServices;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed class OutputBuffer
{
    /// <summary>Bytes at which a response is sent on rather than collected further.</summary>
    public const int SendAt = 32 * 1024;

    /// <summary>The first memory it takes: most answers fit in.</summary>
    public const int SmallSize = 4096;

    /// <summary>The next: a response that is sent on in time fits in with what frames it.</summary>
    public const int FullSize = BufferPool.OutputSize;

    private const int KeptSizeMax = 256 * 1024;

    private int _end;

    private List<byte[]>? _outgrown;     // the loop may be sending from them until everything has left

    public byte[] Bytes { get; private set; } = [];

    public int Start { get; set; }

    /// <summary>Who looks on without the gate (an abort, a loop that sends) finds all that lies before what he reads here, and memory that holds as much: read it ahead of <see cref="Bytes"/>.</summary>
    public int End
    {
        get => Volatile.Read(ref _end);
        set => Volatile.Write(ref _end, value);
    }

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
        Start = FrameStart = 0;
        End = 0;
        ResponseStart = 0;
        ChunkStart = -1;
        if (Bytes.Length > KeptSizeMax)
        {
            Bytes = BufferPool.Rent(FullSize);
        }

        ReturnOutgrown();
    }

    /// <summary>Takes over all that another one has to send, and what it knows of it. There is nothing in this one, and nothing left in the other.</summary>
    public void TakeAll(OutputBuffer other)
    {
        other.Compact();
        if (other.End > 0)
        {
            Append(other.Bytes.AsSpan(0, other.End));
        }

        ResponseStart = other.ResponseStart;
        FrameStart = other.FrameStart;
        ChunkStart = other.ChunkStart;
        other.Clear();
    }

    /// <summary>Keeps no memory where all of it has been sent. Nobody is looking at it: its owner alone, or within the gate and the send lock.</summary>
    public void Release()
    {
        if (!HasIdleMemory)
        {
            return;
        }

        Compact();
        Return(Bytes);
        Bytes = [];
        ReturnOutgrown();
    }

    private void ReturnOutgrown()
    {
        if (_outgrown is { Count: > 0 } outgrown)
        {
            outgrown.ForEach(Return);
            outgrown.Clear();
        }
    }

    /// <summary>There is nothing in it, and memory for something.</summary>
    public bool HasIdleMemory => Start == End && ChunkStart < 0 && Bytes.Length > 0;

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

        byte[] larger = Rent(SizeFor(needed));
        if (Bytes.Length > 0)
        {
            Buffer.BlockCopy(Bytes, 0, larger, 0, End);
            (_outgrown ??= []).Add(Bytes);
        }

        Bytes = larger;
    }

    private int SizeFor(long needed) =>
        needed <= SmallSize ? SmallSize
        : needed <= FullSize ? FullSize
        : (int)Math.Min(Array.MaxLength, Math.Max(needed, Bytes.Length * 2L));

    private static byte[] Rent(int size) => size > KeptSizeMax ? GC.AllocateUninitializedArray<byte>(size) : BufferPool.Rent(size);

    private static void Return(byte[] bytes)
    {
        if (bytes.Length <= KeptSizeMax)
        {
            BufferPool.Return(bytes);
        }
    }
}
