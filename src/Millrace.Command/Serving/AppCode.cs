// From the settings of an application to what its next generation runs: a project is built, and code is copied to where nobody writes to it.

using System.Globalization;
using System.Security.Cryptography;
using Millrace.Command.Running;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal sealed class AppCode
{
    private static readonly TimeSpan s_buildPatience = TimeSpan.FromMinutes(10);

    private readonly DaemonFolders _folders;
    private readonly AppVoice _voice;
    private readonly PatientLook _look;
    private readonly CodeWatch _watch;
    private readonly Action<string> _say;
    private bool _isStale;      // somebody has written beside the last build

    /// <param name="Target">Without links: where it leads when a generation begins, and not where it leads when another process is started for that.</param>
    /// <param name="Project">What is built; null: nothing. Somebody who edits it has it built under the name that is watched.</param>
    private sealed record Place(string Target, string? Project);

    /// <param name="folders">Where the daemon keeps what it makes.</param>
    /// <param name="voice">Is given what a build complains of.</param>
    /// <param name="say">Is told where nobody can look for changes.</param>
    public AppCode(DaemonFolders folders, AppVoice voice, Action<string> say)
    {
        (_folders, _voice, _say, _look) = (folders, voice, say, new PatientLook());
        _watch = new CodeWatch(_look, say);
    }

    /// <summary>Ends when there is other code than the last generation was to run.</summary>
    public Task WaitForChangeAsync(CancellationToken ct) => _watch.WaitForChangeAsync(ct);

    /// <summary>Whether there is.</summary>
    public Task<bool> HasChangedAsync(CancellationToken ct) => _watch.HasChangedAsync(ct);

    /// <summary>Nobody wants to know of changes until the next generation.</summary>
    public void LeaveUnwatched() => _watch.End();

    /// <summary>What another program has to know: the code that was deployed last, and whether somebody has written beside the last build.</summary>
    public (string? Deployed, bool IsStale) State => (_watch.Deployed, _isStale);

    /// <summary>Looks for changes since then.</summary>
    public void Resume(AppSettings settings, string? deployed, bool isStale)
    {
        _isStale = isStale;
        if (deployed is null)
        {
            return;
        }
        try
        {
            _watch.Resume(settings.Target, OtherUser.Find(settings.User), deployed);
        }
        catch (MillraceStartException error)
        {
            _say($"changes of its files are not looked for until its next generation: {error.Message}");
        }
    }

    /// <summary>What to start for a generation.</summary>
    /// <returns>The application, and the copy that it runs from: null where it runs from its own folder.</returns>
    /// <exception cref="CommandFailure">There is no application, it does not build, or its code cannot be copied.</exception>
    /// <exception cref="StandstillException">The file system that it lies on does not answer.</exception>
    public async Task<(RunnableApp App, CodeSnapshot? Code)> FindAsync(AppSettings settings, int generation, CancellationToken ct)
    {
        var user = OtherUser.Find(settings.User);
        var watched = settings.Watch || settings.WatchSources ? _watch.Watched : null;
        try
        {
            return await FindAsync(settings, generation, user, ct);
        }
        catch (StandstillException) when (watched is not null)
        {
            _watch.Watched = watched;       // what has changed is deployed when the file system answers again
            throw;
        }
    }

    private async Task<(RunnableApp App, CodeSnapshot? Code)> FindAsync(AppSettings settings, int generation, OtherUser? user, CancellationToken ct)
    {
        string? project = await ReadAsync(settings.Target, user, () => AppTarget.FindProject(settings.Target), ct);
        _watch.End();
        await (settings.Watch && project is null ? _watch.BeginAsync(settings.Target, user, ct) : Task.CompletedTask);
        string named = Path.TrimEndingDirectorySeparator(project ?? settings.Target);
        string target = await ReadAsync(named, user, () => RealPath.Of(named), ct);     // behind the look of the watch: who has led the link elsewhere between the two has changed it
        try
        {
            return await FindAsync(settings, generation, new Place(target, project is null ? null : settings.WatchSources ? project : target), user, ct);
        }
        catch (CommandFailure failure) when (target != named)
        {
            throw new CommandFailure(failure.ExitCode, $"{failure.Message} ({named} leads to {target}.)");
        }
    }

    private async Task<(RunnableApp App, CodeSnapshot? Code)> FindAsync(AppSettings settings, int generation, Place place, OtherUser? user, CancellationToken ct)
    {
        var (target, project) = place;
        string? built = project is null ? null : settings.WatchSources ? await BuildWatchedAsync(project, user, ct) : await BuildAsync(project, user, ct);
        var app = await ReadAsync(target, user, () => built is null ? AppTarget.FindApp(target, settings.Environment) : AppTarget.Inspect(built, Path.GetDirectoryName(target)!, settings.Environment), ct);
        app = app with { Folder = settings.WorkingDirectory is { } directory ? await ReadAsync(directory, user, () => RealPath.Of(directory), ct) : app.WorkingDirectory };
        if (!settings.Snapshot)
        {
            return (app, null);
        }
        string name = string.Create(CultureInfo.InvariantCulture, $"{settings.Name}-{generation}-{Environment.ProcessId}-{RandomNumberGenerator.GetHexString(8, lowercase: true)}");      // no other's, whoever has left what
        var code = await CopyAsync(app.Assembly, name, user, settings.User is { } named ? Accounts.Find(named).Group : null, ct);
        if (project is null)
        {
            _watch.Note(code.Signature);
        }
        return (code.Move(app), code);
    }

    // What nobody waits for any more is not copied to its end.
    private async Task<CodeSnapshot> CopyAsync(string assembly, string name, OtherUser? user, uint? group, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        var wanted = limit.Token;
        try
        {
            return await _look.AtAsync(assembly, () => CodeSnapshot.Take(assembly, _folders.Snapshots, name, new CodeReader(user, group, _look.GoesOn, wanted)), ct, static code => code.Dispose());
        }
        finally
        {
            await limit.CancelAsync();
        }
    }

    private Task<T> ReadAsync<T>(string place, OtherUser? user, Func<T> read, CancellationToken ct) => _look.AtAsync(place, () => Read(user, read), ct);

    private static T Read<T>(OtherUser? user, Func<T> read)
    {
        try
        {
            return OtherUser.Read(user, read);
        }
        catch (CommandFailure failure) when (user is not null)
        {
            throw new CommandFailure(failure.ExitCode, $"{failure.Message} (So user {user.Name} sees it, whom the application runs as.)");
        }
    }

    // What is saved during the build is built next. A first one finds out which projects belong to this one.
    private async Task<string> BuildWatchedAsync(string project, OtherUser? user, CancellationToken ct)
    {
        var sources = await FoldersOfAsync(project, ct);
        await _watch.BeginSourcesAsync(sources, ct);
        string built = await BuildAsync(project, user, ct);
        if (await FoldersOfAsync(project, ct) is var all && !all.SequenceEqual(sources))
        {
            bool hasChanged = await _watch.HasChangedAsync(ct);
            await _watch.BeginSourcesAsync(all, ct);
            if (hasChanged)
            {
                _watch.Note("");
            }
        }
        return built;
    }

    private Task<IReadOnlyList<string>> FoldersOfAsync(string project, CancellationToken ct) => _look.AtAsync(project, () => SourceFiles.FoldersOf(project), ct);

    private Task<string> SignAsync(string project, IReadOnlyList<string> sources, CancellationToken ct) =>
        sources.Count == 0 ? Task.FromResult("") : _look.AtAsync(project, () => SourceFiles.Sign(sources, _look.GoesOn), ct);

    // MSBuild goes by times: what was saved while it was compiling is older than what that has made, and would count as built.
    private async Task<string> BuildAsync(string project, OtherUser? user, CancellationToken ct)
    {
        var sources = user is null ? await FoldersOfAsync(project, ct) : [];
        bool isAnew = _isStale;
        string before;
        Task<string> building;
        await using (await BuildTurn.TakeAsync(sources, user, ct, (folder, open) => _look.AtAsync(folder, open, ct, static late => late?.Dispose())))
        {
            before = await SignAsync(project, sources, ct);
            building = BuildInTimeAsync(new ProjectBuild.Order(project, user, isAnew, assembly => _look.AtAsync(assembly, () => File.Exists(assembly), ct)), ct);
            await ((Task)building).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        _isStale = true;        // also where nobody can look
        _isStale = await SignAsync(project, sources, CancellationToken.None) != before || (isAnew && !building.IsCompletedSuccessfully);
        return await building;
    }

    private async Task<string> BuildInTimeAsync(ProjectBuild.Order order, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(s_buildPatience);
        try
        {
            return await ProjectBuild.BuildAsync(order, errors => Array.ForEach(errors.TrimEnd().Split('\n'), _voice.Complain), _voice.WhereComplaintsAre, limit.Token);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"{Path.GetFileName(order.Project)} was not built within {s_buildPatience.TotalMinutes:0} minutes. Publish it, and name the published folder."));
        }
    }
}
