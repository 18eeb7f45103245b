// The bounds of one request head, and what else a listener may decide about it. Passed to the reader with every call, so that one reader serves listeners with different limits.

namespace Millrace.Protocols.Http1;

/// <summary>How large a request head may be. All comparisons are safe up to <see cref="int.MaxValue"/>; <c>new()</c> gives the defaults.</summary>
public struct Http1Limits
{
    /// <summary>The longest method in bytes; a longer one is answered 501 (RFC 9112 §3).</summary>
    public const int MethodMax = 32;

    /// <summary>The default limits.</summary>
    public Http1Limits()
    {
    }

    /// <summary>Longest request line in bytes with its CRLF, an empty line before it not counted; 414 beyond. Default 8,192.</summary>
    public int RequestLineMax { get; set; } = 8192;

    /// <summary>Largest header section in bytes: all field lines with their CRLFs and the empty line; 431 beyond. Default 32,768.</summary>
    public int HeaderBytesMax { get; set; } = 32768;

    /// <summary>Most field lines; 431 beyond. Default 100.</summary>
    public int HeaderCountMax { get; set; } = 100;

    /// <summary>Whether a path with dot segments is refused (<see cref="Text.DotSegment"/>); 400. Default true.</summary>
    public bool RefusesDotSegments { get; set; } = true;

    /// <summary>A buffer of this many bytes always leads to Done or Faulty: both sections and the empty line that may stand before them.</summary>
    public readonly long HeadBytesMax => 2L + RequestLineMax + HeaderBytesMax;
}
