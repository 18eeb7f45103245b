// What a daemon runs, as a file in the folder of its sockets: for the next one where this one ends without a word. Each state is a file of its own, and the one before
// it goes when that is whole: a daemon that is killed in the middle leaves one that is.

using System.Globalization;
using System.Text.RegularExpressions;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class StateFile
{
    private const int SizeMax = 256 * 1024 * 1024;

    private readonly Lock _lock = new();
    private readonly DaemonFolders _folders;
    private long _number;
    private bool _isOver;

    public StateFile(DaemonFolders folders)
    {
        _folders = folders;
        using var folder = OwnFolder.Open(folders.Sockets);
        _number = folder.Names.Select(NumberOf).DefaultIfEmpty(0).Max();
    }

    /// <summary>Writes what is now. Where there is no room, or somebody has the folder removed, the last one stays, or none.</summary>
    public void Write(Func<DaemonState> state)
    {
        lock (_lock)
        {
            if (_isOver)
            {
                return;
            }
            try
            {
                using var folder = OwnFolder.Open(_folders.Sockets);
                folder.Write(NameOf(++_number), state().Write());
                RemoveAll(folder, before: _number);
            }
            catch (Exception)       // whatever it is: this daemon goes on, and the next change is written again
            {
                // Nothing of this is to keep anybody from what he does.
            }
        }
    }

    /// <summary>The daemon ends, and leaves nothing behind.</summary>
    public void End()
    {
        lock (_lock)
        {
            _isOver = true;
            try
            {
                using var folder = OwnFolder.Open(_folders.Sockets);
                RemoveAll(folder, before: long.MaxValue);
            }
            catch (Exception error) when (error is IOException or CommandFailure)
            {
                // Nor is there a folder.
            }
        }
    }

    /// <summary>The last whole one in a folder that belongs to this user alone; null where there is none.</summary>
    /// <param name="path">The folder.</param>
    /// <param name="strangers">Processes of a daemon whose state is of another form.</param>
    public static DaemonState? Read(string path, out IReadOnlyList<ProcessName> strangers)
    {
        using var folder = OwnFolder.Open(path);
        foreach (long number in folder.Names.Select(NumberOf).Where(static number => number > 0).OrderDescending().ToArray())
        {
            try
            {
                byte[] text = folder.Read(NameOf(number), SizeMax);
                if (StateHead.Read(text) is { } head)
                {
                    bool isOfNow = head.Boot == DaemonState.BootNow;
                    var state = isOfNow ? DaemonState.Read(text, out _) : null;
                    strangers = isOfNow && state is null ? head.Processes ?? [] : [];
                    return state;
                }
            }
            catch (IOException)
            {
                // Another one may be there.
            }
        }
        strangers = [];
        return null;
    }

    private static void RemoveAll(OwnFolder folder, long before)
    {
        foreach (string name in folder.Names.Where(name => NumberOf(name) is > 0 and var number && number < before).ToArray())
        {
            folder.Remove(name);
        }
    }

    private static string NameOf(long number) => string.Create(CultureInfo.InvariantCulture, $"state-{number}.json");

    private static long NumberOf(string name) => Name().Match(name) is { Success: true } match && long.TryParse(match.Groups[1].Value, NumberStyles.None, CultureInfo.InvariantCulture, out long number) ? number : 0;

    [GeneratedRegex("^state-([0-9]{1,18})[.]json$")]
    private static partial Regex Name();
}
