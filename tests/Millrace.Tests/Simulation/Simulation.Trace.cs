// What happened, as a number that must be the same for the same seed, and as a text where somebody wants to read it.

using System.Globalization;

namespace Millrace.Tests.Simulation;

internal sealed partial class Simulation
{
    private readonly List<string>? _trace;
    private readonly bool _hasFingerprint;
    private ulong _fingerprint = 14695981039346656037;

    /// <summary>A number over every step so far.</summary>
    public ulong Fingerprint => _fingerprint;

    public void Trace(string what, long a = 0, long b = 0)
    {
        if (Machine.Tracer is { } tracer)
        {
            tracer(this, what, a, b);
            return;
        }

        if (!_hasFingerprint)
        {
            return;
        }

        foreach (char c in what)
        {
            Mix(c);
        }

        Mix((ulong)a);
        Mix((ulong)b);
        _trace?.Add(string.Create(CultureInfo.InvariantCulture, $"{World.NowMs - 1_000_000,7} {new string(' ', Machine.Depth * 2)}{what} {a} {b}"));
    }

    private void Mix(ulong value) => _fingerprint = (_fingerprint ^ value) * 1099511628211;

    /// <summary>The last steps, one a line.</summary>
    public string TraceText(int last) => _trace is null ? "" : string.Join('\n', _trace.TakeLast(last));
}
