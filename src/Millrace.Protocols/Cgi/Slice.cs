// A place in a byte stream that was read, and the place of a header field in it. Values only.
namespace Millrace.Protocols.Cgi;

/// <summary>A range of bytes that is present or not. The default value is not present.</summary>
public readonly record struct Slice
{
    // The start plus one, so that the default value is "not present".
    private readonly int _place;

    /// <summary>Makes a range that is present.</summary>
    /// <param name="start">Offset of its first byte, at least 0.</param>
    /// <param name="length">Its length in bytes; may be 0.</param>
    public Slice(int start, int length)
    {
        _place = start + 1;
        Length = length;
    }

    /// <summary>Offset of the first byte; -1 where nothing is present.</summary>
    public int Start => _place - 1;

    /// <summary>Length in bytes; 0 where nothing is present.</summary>
    public int Length { get; }

    /// <summary>Whether there was such a value, be it empty.</summary>
    public bool IsPresent => _place != 0;

    /// <summary>Whether there is nothing to read: not present, or empty.</summary>
    public bool IsEmpty => Length == 0;

    /// <summary>The bytes.</summary>
    /// <param name="source">What the range was read from.</param>
    /// <returns>A part of <paramref name="source"/>; empty where nothing is present.</returns>
    public ReadOnlySpan<byte> In(ReadOnlySpan<byte> source) => _place == 0 ? default : source.Slice(_place - 1, Length);
}

/// <summary>Where a request header lies in the PARAMS stream.</summary>
/// <param name="NameStart">Offset of the variable's name behind <c>HTTP_</c>: upper case with underscores, see <see cref="HeaderNameMapper"/>.</param>
/// <param name="NameLength">Bytes of the name; at least 1.</param>
/// <param name="ValueStart">Offset of the value.</param>
/// <param name="ValueLength">Bytes of the value; may be 0.</param>
public readonly record struct HeaderSlice(int NameStart, int NameLength, int ValueStart, int ValueLength)
{
    /// <summary>The name's bytes.</summary>
    /// <param name="parameters">The stream the header was read from.</param>
    /// <returns>A part of <paramref name="parameters"/>.</returns>
    public ReadOnlySpan<byte> NameIn(ReadOnlySpan<byte> parameters) => parameters.Slice(NameStart, NameLength);

    /// <summary>The value's bytes.</summary>
    /// <param name="parameters">The stream the header was read from.</param>
    /// <returns>A part of <paramref name="parameters"/>.</returns>
    public ReadOnlySpan<byte> ValueIn(ReadOnlySpan<byte> parameters) => parameters.Slice(ValueStart, ValueLength);
}
