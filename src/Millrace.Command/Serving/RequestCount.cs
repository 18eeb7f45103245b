// What a process says of its requests over its channel. It may be anybody's program: what makes no sense is no answer.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Requests">Begun since its start.</param>
/// <param name="Running">Of those not yet answered.</param>
internal readonly record struct RequestCount(long Requests, long Running)
{
    private const long CountMax = 1L << 53;     // of which some may be added

    /// <summary>REQUESTS RUNNING</summary>
    public static RequestCount? Read(string text) =>
        text.Split(' ') is [var requests, var running, ..]
        && long.TryParse(requests, NumberStyles.None, CultureInfo.InvariantCulture, out long begun) && long.TryParse(running, NumberStyles.None, CultureInfo.InvariantCulture, out long now)
        && begun <= CountMax && now <= CountMax
            ? new RequestCount(begun, now)
            : null;
}
