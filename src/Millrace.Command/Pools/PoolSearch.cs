// The processes that have pools: those of this user, and the daemon. Who is not to be trusted, or says nothing, is left out with a sentence; the others are found all the same.

using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Workers.Control;

namespace Millrace.Command.Pools;

/// <param name="Folder">Where processes have their control sockets that have given them no path.</param>
/// <param name="Daemon">The socket of this user's daemon.</param>
internal sealed record PoolSearch(string Folder, string Daemon)
{
    public TimeSpan Patience { get; init; } = TimeSpan.FromSeconds(10);

    /// <param name="control">The socket of one process, which must answer; null: all that do.</param>
    /// <param name="say">Is told who is left out.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="CommandFailure">Nobody answers.</exception>
    public static Task<IReadOnlyList<(PoolClient Client, PoolsStatus Status)>> FindAsync(string? control, Action<string> say, CancellationToken ct) =>
        control is null ? new PoolSearch(ControlSocket.DefaultFolder, ServeFileSource.Defaults.Control).FindAllAsync(say, ct) : FindOneAsync(Path.GetFullPath(control), ct);

    /// <summary>All that answer.</summary>
    public async Task<IReadOnlyList<(PoolClient Client, PoolsStatus Status)>> FindAllAsync(Action<string> say, CancellationToken ct)
    {
        string[] paths = [.. SocketsInFolder(say), .. File.Exists(Daemon) ? [Daemon] : Array.Empty<string>()];
        var asked = await Task.WhenAll(paths.Select(path => AskAsync(path, ct)));
        Array.ForEach([.. asked.Select(static each => each.WhyNot).OfType<string>()], say);
        var found = asked.Where(static each => each.Status is not null).Select(static each => (each.Client, each.Status!)).ToArray();
        return found.Length > 0 ? found : throw new CommandFailure(
            ExitCode.CannotConnect,
            $"No process has a control socket for pools in {Folder}, and no daemon listens on {Daemon}. An application has one where it calls services.AddPoolControl(), and a daemon for the \"pools\" of its file; one of another user, or with a path of its own, is asked with --control PATH.");
    }

    private static async Task<IReadOnlyList<(PoolClient Client, PoolsStatus Status)>> FindOneAsync(string path, CancellationToken ct)
    {
        var client = new PoolClient(path);
        try
        {
            return [(client, await client.StatusAsync(ct))];
        }
        catch
        {
            client.Dispose();
            throw;
        }
    }

    // The default folder may lie in /tmp, where anybody can have been first.
    private string[] SocketsInFolder(Action<string> say)
    {
        if (!Directory.Exists(Folder))
        {
            return [];
        }
        if (!OwnDirectory.IsOwn(Folder))
        {
            say($"{Folder} is left out: it is somebody else's, or open to others, and whoever has made it may have put anything there. Remove it (as its owner, or as root).");
            return [];
        }
        return [.. Directory.GetFiles(Folder, "*.sock").Order(StringComparer.Ordinal)];
    }

    private async Task<(PoolClient Client, PoolsStatus? Status, string? WhyNot)> AskAsync(string path, CancellationToken ct)
    {
        var client = new PoolClient(path) { Patience = Patience };
        try
        {
            return (client, await client.StatusAsync(ct), null);
        }
        catch (CommandFailure failure)
        {
            client.Dispose();
            bool isPlain = failure.ExitCode == ExitCode.CannotConnect || path == Daemon;      // its process was killed; or it is a daemon of a version that knows no pools
            return (client, null, isPlain ? null : $"{failure.Message} It is left out.");
        }
    }
}
