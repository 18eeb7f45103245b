// `millrace run --reload` and `--watch`: what `millrace serve` does, for one application, without a file and a control socket. Its addresses are open as long as this runs;
// SIGHUP, or a change, puts the next generation in the place of the one that serves, which gives it its connections.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

internal sealed class SingleApp : IDisposable
{
    private const string Temporary = "/tmp";

    private static readonly TimeSpan s_lastWords = TimeSpan.FromSeconds(1);

    private const int OtherNamesMax = 16;

    private readonly string _name;
    private readonly AppSettings _settings;
    private readonly CommandConsole _console;
    private readonly DaemonFolders _folders;
    private readonly HostedApp _app;
    private readonly TaskCompletionSource _stopping = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly SocketsOfOne _lock;        // what tidies up in /tmp leaves a folder alone that somebody has locked (tmpfiles.d(5))
    private DaemonSignals? _signals;
    private int _hangUps;

    /// <param name="settings">What to run.</param>
    /// <param name="console">Where its output goes.</param>
    /// <exception cref="CommandFailure">Its folder cannot be made.</exception>
    public SingleApp(AppSettings settings, CommandConsole console)
    {
        _settings = settings;
        _console = console;
        _name = MakeFolder();
        string own = Path.Combine(Temporary, _name);
        RemoveAll(own);
        var places = new DaemonPlaces(Path.Combine(own, "control.sock"), Path.Combine(own, "code"));
        _lock = SocketsOfOne.Take(places.Control);
        _folders = new DaemonFolders(places);
        _app = new HostedApp(settings, _folders, AppVoice.Alone(console.Steady));
    }

    // Of its sockets, and of copies of its code: nobody else's business. Everybody may have taken a name there that others come to have.
    private static string MakeFolder()
    {
        const string cure = "Remove it, as its owner or as root.";
        for (int i = 0; ; i++)
        {
            string name = string.Create(CultureInfo.InvariantCulture, $"millrace-run-{Environment.ProcessId}{(i == 0 ? "" : $"-{i}")}");
            try
            {
                OwnDirectory.Prepare(Path.Combine(Temporary, name), group: null, cure, cure);
                return name;
            }
            catch (CommandFailure) when (i < OtherNamesMax)
            {
                // The next one.
            }
        }
    }

    /// <summary>Where it listens.</summary>
    public IReadOnlyList<string> Addresses => _app.Status.Urls;

    /// <summary>Runs it until a signal ends it.</summary>
    /// <param name="started">Is called when it serves for the first time.</param>
    /// <exception cref="CommandFailure">It does not start, and nothing is watched that could change that.</exception>
    public async Task<int> RunAsync(Action started)
    {
        Inheritance.EndOfFiles();
        _signals = new DaemonSignals(() => _stopping.TrySetResult(), _app.Kill, Reload);
        try
        {
            await StartAsync(started);
        }
        finally
        {
            await _app.DisposeAsync();
            await _console.Steady.FlushAsync(s_lastWords);
        }
        return ExitCode.Success;
    }

    public void Dispose()
    {
        _signals?.Dispose();
        _folders.Dispose();
        _lock.Dispose();
        try
        {
            using var temporary = OwnFolder.Open(Temporary);
            temporary.Remove(_name);
        }
        catch (IOException)
        {
            // It lies among what is temporary.
        }
    }

    // What one before this has left that had the same number, and was killed.
    private static void RemoveAll(string folder)
    {
        using var own = OwnFolder.Open(folder);
        foreach (string left in own.Names.ToArray())
        {
            own.Remove(left);
        }
    }

    private async Task StartAsync(Action started)
    {
        var starting = _app.BeginAsync();
        if (await Task.WhenAny(starting, _stopping.Task) == _stopping.Task)
        {
            return;
        }
        if (await starting is { } error && !_settings.WatchSources && !_settings.Watch)
        {
            throw new CommandFailure(ExitCode.Failure, error);
        }
        while (_app.State != AppState.Serving && !_stopping.Task.IsCompleted)
        {
            await Task.WhenAny(_stopping.Task, Task.Delay(TimeSpan.FromMilliseconds(100)));     // for a change that mends it
        }
        if (!_stopping.Task.IsCompleted)
        {
            started();
        }
        await _stopping.Task;
    }

    private void Reload()
    {
        if (Interlocked.Increment(ref _hangUps) == 1)
        {
            _ = DeployAsync();
        }
    }

    // However many come while one generation is on its way, one follows it.
    private async Task DeployAsync()
    {
        for (int heeded = 0; Interlocked.Add(ref _hangUps, -heeded) > 0;)
        {
            heeded = Volatile.Read(ref _hangUps);
            _console.Steady.Say("SIGHUP: the next generation is on its way");
            await _app.DeployAsync();
        }
    }
}
