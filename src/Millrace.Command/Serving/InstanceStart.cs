// What one process of an application is started with, and how that fails.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <param name="Id">Names its sockets: shop-3-1 is the first process of the third generation of shop.</param>
/// <param name="Settings">Those of the application.</param>
/// <param name="App">What to start.</param>
/// <param name="Listeners">What it is to accept on when it is told to.</param>
/// <param name="Directory">Where its own sockets are made.</param>
/// <param name="Output">Is given what it prints.</param>
internal sealed record InstanceStart(string Id, AppSettings Settings, RunnableApp App, AppListeners Listeners, string Directory, AppOutput Output)
{
    /// <summary>The folder that leads a router to applications; null for any other.</summary>
    public OwnFolder? Shared { get; init; }

    /// <summary>Whether it ends when this process does, however that is: no other takes it over.</summary>
    public bool EndsWithParent { get; init; }

    /// <summary>Where it is put under its limits.</summary>
    public required ControlGroups Groups { get; init; }

    /// <summary>Why it has not started. Of a folder that nobody has written in the file, with what is written there.</summary>
    public string Explain(string reason)
    {
        string named = Settings.WorkingDirectory ?? Settings.Target;
        return App.Folder is { } folder && folder != named && folder != Path.GetDirectoryName(named) && reason.StartsWith(folder, StringComparison.Ordinal)
            ? $"{reason} ({named} led there when its generation was started; a reload begins where it leads now.)"
            : reason;
    }
}

/// <summary>A process that has not become what it was to be.</summary>
internal sealed class InstanceException(string sentence) : Exception(sentence);
