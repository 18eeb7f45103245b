// What an application answers to the daemon's own questions: nothing of it is kept, and no more of it is read than such an answer has. To read it costs the daemon's time, which is under no limit of the
// application's.

using System.Globalization;

namespace Millrace.Command.Serving;

internal static class AnswerReading
{
    /// <summary>Bytes of the body of an answer of a health path.</summary>
    public const int HealthBytesMax = 1024 * 1024;

    /// <summary>Bytes of the body of an answer of a warm-up path, which is a page like others.</summary>
    public const int WarmUpBytesMax = 64 * 1024 * 1024;

    private const int PartMax = 16 * 1024;

    /// <summary>Reads it to its end.</summary>
    /// <param name="content">The body.</param>
    /// <param name="path">Whose answer it is.</param>
    /// <param name="most">Bytes.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="InstanceException">There are more.</exception>
    /// <exception cref="IOException">It breaks off.</exception>
    public static async Task PassOverAsync(HttpContent content, string path, int most, CancellationToken ct)
    {
        byte[] part = new byte[PartMax];
        await using var stream = await content.ReadAsStreamAsync(ct);
        long passed = 0;
        for (int count; (count = await stream.ReadAsync(part, ct)) > 0;)
        {
            passed += count;
            if (passed > most)
            {
                throw new InstanceException(string.Create(CultureInfo.InvariantCulture, $"{path} answers with more than {most / 1_048_576} MiB. Name a path whose answer is short."));
            }
        }
    }
}
