// Whether the code of an application is another than the one that was deployed last. Looks at names, lengths and times now and then: notices of the kernel
// get lost in file systems that others write to, and say nothing of a link that leads elsewhere.

using System.Diagnostics;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed class CodeWatch
{
    private static readonly TimeSpan s_quiet = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan s_periodMin = TimeSpan.FromSeconds(1);
    private const int CostMax = 100;     // a look takes at most one part in so many of the time

    private readonly Lock _lock = new();
    private TimeSpan _period = s_periodMin;
    private string? _folder;
    private OtherUser? _user;
    private string? _deployed;

    /// <summary>What lies there now is deployed.</summary>
    /// <param name="folder">Null: nothing is watched.</param>
    /// <param name="user">Who looks; null: this process's own.</param>
    public void Begin(string? folder, OtherUser? user)
    {
        string? signature = folder is null ? null : Look(folder, user);
        lock (_lock)
        {
            (_folder, _user, _deployed) = (folder, user, signature);
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
            await Task.Delay(s_quiet, ct);
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
        string? folder, deployed;
        OtherUser? user;
        lock (_lock)
        {
            (folder, user, deployed) = (_folder, _user, _deployed);
        }
        return folder is not null && Look(folder, user) is { } now && now != deployed ? now : null;
    }

    private string? Look(string folder, OtherUser? user)
    {
        long begun = Stopwatch.GetTimestamp();
        string? signature = OtherUser.Read(user, () => CodeFiles.Sign(CodeFiles.Read(folder)));
        TimeSpan took = Stopwatch.GetElapsedTime(begun) * CostMax;
        _period = took > s_periodMin ? took : s_periodMin;
        return signature;
    }
}
