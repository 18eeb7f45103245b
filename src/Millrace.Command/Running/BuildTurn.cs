// Builds that write into the same folders take turns: two at a time of one project, or of two that refer to a third, find each other's files open and fail. Within this process one is built for
// each user; another process is waited for where it locks the same projects.

using System.Collections.Concurrent;
using Microsoft.Win32.SafeHandles;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal sealed class BuildTurn : IAsyncDisposable
{
    private const string LockName = "millrace.build.lock";
    private const int LookAgainMs = 50;

    private static readonly ConcurrentDictionary<string, SemaphoreSlim> s_turns = new(StringComparer.Ordinal);

    private static readonly TimeSpan s_closePatience = TimeSpan.FromSeconds(1);

    private readonly SemaphoreSlim _turn;
    private readonly List<SafeFileHandle> _locks = [];

    private BuildTurn(SemaphoreSlim turn) => _turn = turn;

    /// <param name="folders">Of the projects that this process's own user builds, in an order that is everybody's.</param>
    /// <param name="user">Who builds; null: this process's own.</param>
    /// <param name="ct">Gives it up.</param>
    /// <param name="look">Opens what lies in a folder, which may not answer, and fails then; null: that is waited for.</param>
    /// <returns>What is disposed of when the build has ended.</returns>
    public static async Task<BuildTurn> TakeAsync(IEnumerable<string> folders, OtherUser? user, CancellationToken ct, Func<string, Func<SafeFileHandle?>, Task<SafeFileHandle?>>? look = null)
    {
        look ??= static (_, open) => Task.FromResult(open());
        var semaphore = s_turns.GetOrAdd(user?.Name ?? "", static _ => new SemaphoreSlim(1));
        await semaphore.WaitAsync(ct);
        var turn = new BuildTurn(semaphore);
        try
        {
            foreach (string folder in folders)
            {
                await turn.LockAsync(Path.Combine(folder, "obj"), look, ct);
            }
            return turn;
        }
        catch
        {
            await turn.DisposeAsync();
            throw;
        }
    }

    /// <summary>The next one's turn. A file system that stands still keeps whoever closes a file of its.</summary>
    public async ValueTask DisposeAsync()
    {
        if (_locks.Count > 0)
        {
            await Task.WhenAny(Task.Run(() => _locks.ForEach(static each => each.Dispose())), Task.Delay(s_closePatience));
        }
        _turn.Release();
    }

    // Where there is no such folder yet, or nothing can be written there, nobody has locked it either. Others cannot open the file, and so not hold anybody up.
    private async Task LockAsync(string folder, Func<string, Func<SafeFileHandle?>, Task<SafeFileHandle?>> look, CancellationToken ct)
    {
        if (await look(folder, () => TryOpen(Path.Combine(folder, LockName))) is not { } file)
        {
            return;
        }
        _locks.Add(file);
        while (!Posix.TryLock((int)file.DangerousGetHandle()))
        {
            await Task.Delay(LookAgainMs, ct);
        }
    }

    private static unsafe SafeFileHandle? TryOpen(string path)
    {
        fixed (byte* at = FileFacts.Encode(path))
        {
            int flags = SystemCalls.O_RDWR | SystemCalls.O_CREAT | SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW;
            int descriptor = SystemCalls.CreateAt(SystemCalls.AT_FDCWD, at, flags, 0x180);
            return descriptor >= 0 ? new SafeFileHandle(descriptor, ownsHandle: true) : null;
        }
    }
}
