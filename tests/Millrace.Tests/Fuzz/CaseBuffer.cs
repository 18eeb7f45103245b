// Bytes that are being spoiled: insert, remove, copy, overwrite, within one array that is used for case after case.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal sealed class CaseBuffer(SeededRandom random)
{
    private const int Max = 48 * 1024;

    private readonly byte[] _bytes = new byte[Max];

    public int Count { get; private set; }

    public Span<byte> Span => _bytes.AsSpan(0, Count);

    public void Clear() => Count = 0;

    public void Append(ReadOnlySpan<byte> bytes) => Insert(Count, bytes);

    public void Insert(int at, ReadOnlySpan<byte> bytes)
    {
        if (Count + bytes.Length <= Max)
        {
            _bytes.AsSpan(at, Count - at).CopyTo(_bytes.AsSpan(at + bytes.Length));
            bytes.CopyTo(_bytes.AsSpan(at));
            Count += bytes.Length;
        }
    }

    public void Remove(int at, int count)
    {
        count = Math.Max(0, Math.Min(count, Count - at));
        _bytes.AsSpan(at + count, Count - at - count).CopyTo(_bytes.AsSpan(at));
        Count -= count;
    }

    public void Truncate(int count) => Count = Math.Min(Count, count);

    /// <summary>Inserts a copy of a part somewhere else.</summary>
    public void Copy(int from, int count, int to)
    {
        count = Math.Clamp(Math.Min(count, Count - from), 0, 4 * 1024);
        Span<byte> part = stackalloc byte[count];
        _bytes.AsSpan(from, count).CopyTo(part);
        Insert(to, part);
    }

    /// <summary>One change that knows nothing of what the bytes mean.</summary>
    public void SpoilByte()
    {
        int at = random.Below(Count + 1);
        switch (random.Below(7))
        {
            case 0 when at < Count:
                _bytes[at] = (byte)random.NextBits();
                break;
            case 1 when at < Count:
                _bytes[at] ^= (byte)(1 << random.Below(8));
                break;
            case 2 when at < Count:
                _bytes[at] = random.Below(4) switch { 0 => 0, 1 => 0xFF, 2 => 0x7F, _ => 0x80 };
                break;
            case 3:
                Remove(at, random.Between(1, 12));
                break;
            case 4:
                Copy(at, random.Between(1, 40), random.Below(Count + 1));
                break;
            case 5 when random.Chance(30):
                Truncate(at);
                break;
            default:
                Insert(at, [(byte)random.NextBits()]);
                break;
        }
    }
}
