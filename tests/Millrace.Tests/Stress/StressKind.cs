// What a request of the stress test asks of its handler and of its client, and what its answer must look like.

using System.Globalization;
using System.Text;

namespace Millrace.Tests.Stress;

internal enum StressKind
{
    /// <summary>Answered at once.</summary>
    Hello,

    /// <summary>Computes for 0.5 to 3 ms.</summary>
    Spin,

    /// <summary>Blocks its thread for 1 to 3 ms.</summary>
    Sleep,

    /// <summary>Awaits a timer.</summary>
    Delay,

    /// <summary>Goes on on another thread.</summary>
    Yield,

    /// <summary>Reads a body and answers its hash; some clients pause in the middle of it.</summary>
    Upload,

    /// <summary>Streams a long body.</summary>
    Stream,

    /// <summary>Throws before the first byte.</summary>
    Throw,

    /// <summary>Throws before the first byte, on another thread.</summary>
    ThrowLater,

    /// <summary>Throws after the first bytes.</summary>
    ThrowMidway,

    /// <summary>Leaves code behind that writes when the request is long over.</summary>
    Leak,

    /// <summary>Runs until its request is aborted, by ABORT_REQUEST or by the end of the connection.</summary>
    UntilAborted,
}

/// <summary>The content of answers: it follows from the request's number, so that a byte of another request stands out.</summary>
internal static class StressContent
{
    public const string ThrownMessage = "thrown on purpose";

    public static byte[] Hello(int id) => Encoding.ASCII.GetBytes($"{id.ToString(CultureInfo.InvariantCulture)}:{new string((char)('a' + (id % 26)), id % 200)}");

    public static string Leaked(int id) => $"LEAK{id.ToString(CultureInfo.InvariantCulture)};";

    /// <summary>Bytes of a long body from <paramref name="offset"/> on.</summary>
    public static void Fill(Span<byte> part, int id, int offset)
    {
        uint seed = (uint)id * 2_654_435_761;
        for (int i = 0; i < part.Length; i++)
        {
            uint at = (uint)(offset + i);
            part[i] = (byte)((seed >> (int)(at & 15)) ^ (at >> 3));
        }
    }

    public static byte[] Long(int id, int length)
    {
        var bytes = new byte[length];
        Fill(bytes, id, 0);
        return bytes;
    }
}
