// The daemon behind `millrace serve`: its applications, and the file that says which there are. A file that is changed is applied as a whole or
// not at all, and an application whose settings have not changed is not touched.

using System.Reflection;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

internal sealed class Daemon : IAsyncDisposable
{
    private readonly CommandConsole _console;
    private readonly string _directory;
    private readonly SemaphoreSlim _one = new(1);
    private readonly DateTimeOffset _since = DateTimeOffset.UtcNow;
    private volatile IReadOnlyList<HostedApp> _apps = [];
    private ServeFile _file;

    /// <param name="file">What to serve.</param>
    /// <param name="console">Where its output goes, and that of the applications.</param>
    public Daemon(ServeFile file, CommandConsole console)
    {
        _file = file;
        _console = console;
        _directory = Path.GetDirectoryName(file.Control)!;
    }

    public static string Version { get; } = typeof(Daemon).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()!.InformationalVersion.Split('+')[0];

    public DaemonStatus Status => new(Environment.ProcessId, Version, _file.Path, _since, [.. _apps.Select(static app => app.Status)]);

    public HostedApp? Find(string name) => _apps.FirstOrDefault(app => app.Settings.Name == name);

    /// <summary>Starts all applications at the same time. One that does not start keeps no other from it.</summary>
    public async Task StartAsync()
    {
        _apps = [.. _file.Apps.Select(settings => new HostedApp(settings, _directory, _console))];
        await Task.WhenAll(_apps.Select(static app => app.DeployAsync()));
    }

    /// <summary>Reads the file again.</summary>
    public async Task<ControlAnswer> ReloadAsync()
    {
        await _one.WaitAsync();
        try
        {
            return ServeFileSource.TryRead(_file.Path, _file.Control, out string mistakes) is { } file ? await ApplyAsync(file) : new ControlAnswer(false, mistakes);
        }
        finally
        {
            _one.Release();
        }
    }

    /// <summary>Ends all processes at once.</summary>
    public void Kill()
    {
        foreach (var app in _apps)
        {
            app.Kill();
        }
    }

    public async ValueTask DisposeAsync()
    {
        await Task.WhenAll(_apps.Select(static app => app.DisposeAsync().AsTask()));
        _one.Dispose();
    }

    private async Task<ControlAnswer> ApplyAsync(ServeFile file)
    {
        if (file.Control != _file.Control)
        {
            return new ControlAnswer(false, $"\"control\" is {file.Control} now, and the daemon listens on {_file.Control} as long as it runs. Start it again, or put the old one back.");
        }
        var before = _apps;
        var gone = before.Where(app => file.Apps.All(settings => settings.Name != app.Settings.Name)).ToArray();
        var moved = before.Where(app => file.Apps.Any(settings => settings.Name == app.Settings.Name && !settings.Urls.SequenceEqual(app.Settings.Urls))).ToArray();

        // Addresses may go from one to another.
        await Task.WhenAll(gone.Select(static app => app.DisposeAsync().AsTask()));
        await Task.WhenAll(moved.Select(static app => app.StopAsync()));
        List<HostedApp> apps = [];
        List<Task<(string Name, string? Error)>> deploys = [];
        foreach (var settings in file.Apps)
        {
            var known = before.FirstOrDefault(app => app.Settings.Name == settings.Name);
            var app = known ?? new HostedApp(settings, _directory, _console);
            apps.Add(app);
            if (known is null || moved.Contains(known) || !known.Settings.IsSame(settings))
            {
                deploys.Add(DeployAsync(app, settings));
            }
        }
        (_file, _apps) = (file, apps);
        var failed = (await Task.WhenAll(deploys)).Where(static deploy => deploy.Error is not null).ToArray();
        return failed.Length == 0
            ? new ControlAnswer(true, $"{file.Path}: {deploys.Count} of {apps.Count} applications deployed, {gone.Length} taken away")
            : new ControlAnswer(false, string.Join('\n', failed.Select(static deploy => $"{deploy.Name}: {deploy.Error}")));
    }

    private static async Task<(string Name, string? Error)> DeployAsync(HostedApp app, AppSettings settings) => (settings.Name, await app.DeployAsync(settings));
}
