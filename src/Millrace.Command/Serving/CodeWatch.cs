// Whether the code of an application is another than the one that was deployed last. Looks at names, lengths and times now and then: notices of the kernel
// get lost in file systems that others write to, and say nothing of a link that leads elsewhere.

using System.Diagnostics;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed class CodeWatch
{
    private static readonly Pace s_daemons = new(TimeSpan.FromSeconds(1), TimeSpan.FromMilliseconds(500));
    private static readonly Pace s_developers = new(TimeSpan.FromMilliseconds(200), TimeSpan.FromMilliseconds(100));
    private const int CostMax = 100;     // a look takes at most one part in so many of the time

    private readonly Lock _lock = new();
    private Pace _pace = s_daemons;
    private TimeSpan _period = s_daemons.Period;
    private Func<string?>? _sign;
    private string? _deployed;

    /// <param name="Period">Between two looks, at least.</param>
    /// <param name="Quiet">For how long nobody must have written.</param>
    private sealed record Pace(TimeSpan Period, TimeSpan Quiet);

    /// <summary>What lies there now is deployed.</summary>
    /// <param name="folder">Null: nothing is watched.</param>
    /// <param name="user">Who looks; null: this process's own.</param>
    public void Begin(string? folder, OtherUser? user) => Begin(folder is null ? null : () => OtherUser.Read(user, () => CodeFiles.Sign(CodeFiles.Read(folder))), s_daemons);

    /// <summary>The same of sources, which somebody edits who waits for what becomes of them.</summary>
    /// <param name="sources">Folders of projects.</param>
    public void BeginSources(IReadOnlyList<string> sources) => Begin(() => SourceFiles.Sign(sources), s_developers);

    private void Begin(Func<string?>? sign, Pace pace)
    {
        string? signature = sign is null ? null : Look(sign, pace);
        lock (_lock)
        {
            (_sign, _pace, _deployed) = (sign, pace, signature);
        }
    }

    /// <summary>What was deployed last; null where nothing is watched.</summary>
    public string? Deployed
    {
        get
        {
            lock (_lock)
            {
                return _sign is null ? null : _deployed;
            }
        }
    }

    /// <summary>It has become this, before it was deployed.</summary>
    public void Note(string signature)
    {
        lock (_lock)
        {
            _deployed = signature;
        }
    }

    /// <summary>Ends when the code has changed, and nobody writes to it any more.</summary>
    public async Task WaitForChangeAsync(CancellationToken ct)
    {
        while (true)
        {
            await Task.Delay(_period, ct);
            if (Changed() is not { } changed)
            {
                continue;
            }
            await Task.Delay(_pace.Quiet, ct);
            if (Changed() == changed)
            {
                return;
            }
        }
    }

    /// <summary>Whether the code is another than what is deployed.</summary>
    public bool HasChanged => Changed() is not null;

    private string? Changed()
    {
        Func<string?>? sign;
        string? deployed;
        Pace pace;
        lock (_lock)
        {
            (sign, deployed, pace) = (_sign, _deployed, _pace);
        }
        return sign is not null && Look(sign, pace) is { } now && now != deployed ? now : null;
    }

    private string? Look(Func<string?> sign, Pace pace)
    {
        long begun = Stopwatch.GetTimestamp();
        string? signature = sign();
        TimeSpan took = Stopwatch.GetElapsedTime(begun) * CostMax;
        _period = took > pace.Period ? took : pace.Period;
        return signature;
    }
}
