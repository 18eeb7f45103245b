// What comes in pieces and is read as one: a head, a section of trailers, variables, a query. All its bytes so far, in one buffer.

using Millrace.Platform;

namespace Millrace.Connections;

internal struct GatheredBytes
{
    private const int SizeMin = 1024;

    private byte[]? _store;

    public int Length { get; private set; }

    public readonly bool IsEmpty => Length == 0;

    public readonly ReadOnlySpan<byte> Bytes => _store.AsSpan(0, Length);

    /// <summary>The buffer that they are in, from its beginning on. They may move with the next piece.</summary>
    public readonly byte[]? Store => _store;

    public void Add(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length == 0)
        {
            return;
        }

        MakeRoom(bytes.Length);
        bytes.CopyTo(_store.AsSpan(Length));
        Length += bytes.Length;
    }

    /// <summary>Room behind them, which does not count as theirs.</summary>
    public Span<byte> Reserve(int size)
    {
        MakeRoom(size);
        return _store.AsSpan(Length, size);
    }

    /// <summary>They are read; the buffer stays for the next.</summary>
    public void Clear() => Length = 0;

    /// <summary>The buffer becomes the caller's.</summary>
    public byte[] Detach()
    {
        byte[] store = _store!;
        _store = null;
        Length = 0;
        return store;
    }

    public void Drop()
    {
        Length = 0;
        if (_store is { } store)
        {
            _store = null;
            BufferPool.Return(store);
        }
    }

    private void MakeRoom(int size)
    {
        int needed = Length + size;
        if (_store is null || _store.Length < needed)
        {
            byte[] larger = BufferPool.Rent(Math.Max(needed, Math.Max(SizeMin, Length * 2)));
            if (_store is not null)
            {
                Buffer.BlockCopy(_store, 0, larger, 0, Length);
                BufferPool.Return(_store);
            }

            _store = larger;
        }
    }
}
