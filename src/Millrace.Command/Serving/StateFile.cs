// What a daemon runs, as a file in the folder of its sockets: for the next one where this one ends without a word. Each state is a file of its own, and the one before
// it goes when that is whole: a daemon that is killed in the middle leaves one that is. A second file keeps room for the next state where somebody fills the disk.

using System.Globalization;
using System.Text.RegularExpressions;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class StateFile
{
    private const int RoomMin = 64 * 1024;
    private const string RoomName = "state-room";

    private readonly Lock _lock = new();
    private readonly DaemonFolders _folders;
    private readonly Action<OwnFolder, string, byte[]> _write;
    private readonly int _lengthMax;
    private long _asked;
    private long _answered;     // so many of those who have asked have what they want
    private long _number;
    private int _room;
    private bool _isFailing;
    private bool _isKept;
    private bool _isOver;

    /// <param name="folders">Where it lies.</param>
    /// <param name="write">Makes a file in it, with these bytes; null: <see cref="OwnFolder.Write"/>.</param>
    /// <param name="lengthMax">Bytes that the next daemon reads.</param>
    /// <exception cref="IOException">The folder of the sockets cannot be opened.</exception>
    public StateFile(DaemonFolders folders, Action<OwnFolder, string, byte[]>? write = null, int lengthMax = DaemonState.LengthMax)
    {
        _lengthMax = lengthMax;
        _folders = folders;
        _write = write ?? (static (folder, name, bytes) => folder.Write(name, bytes));
        using var folder = OwnFolder.Open(folders.Sockets);
        _number = folder.Names.Select(NumberOf).DefaultIfEmpty(0).Max();
        folder.Remove(RoomName);        // of a daemon that was killed: who knows how large
    }

    /// <summary>Writes what is now, unless that has been done for others since this was called: many who come at a time cost two writes. Where there is no room, or somebody has the folder removed, the last one stays, or none, and the next change is written again.</summary>
    /// <returns>Why it has not been written, where the last one was; else null.</returns>
    public string? Write(Func<DaemonState> state)
    {
        long turn = Interlocked.Increment(ref _asked);
        lock (_lock)
        {
            if (_isOver || _isKept || turn <= _answered)
            {
                return null;
            }
            _answered = Volatile.Read(ref _asked);      // what they have changed is in the state that is taken now
            try
            {
                using var folder = OwnFolder.Open(_folders.Sockets);
                byte[] bytes = state().Write();
                if (bytes.Length > _lengthMax)
                {
                    throw new IOException(string.Create(CultureInfo.InvariantCulture, $"it is {bytes.Length} bytes long, and the next daemon reads {_lengthMax} at most; the last one stays"));
                }
                WriteNext(folder, bytes);
                RemoveAll(folder, before: _number);
                KeepRoom(folder, bytes.Length);
                _isFailing = false;
                return null;
            }
            catch (Exception error)       // whatever it is: this daemon goes on, and nothing of this is to keep anybody from what he does
            {
                bool isKnown = _isFailing;
                _isFailing = true;
                return isKnown ? null : error.Message;
            }
        }
    }

    /// <summary>The daemon is about to end: what there is stays as it is until then. One that is killed meanwhile has not stopped its applications because somebody wanted that.</summary>
    public void Keep()
    {
        lock (_lock)
        {
            _isKept = true;
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
                folder.Remove(RoomName);
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
                byte[] text = folder.Read(NameOf(number), DaemonState.LengthMax);
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

    private void WriteNext(OwnFolder folder, byte[] bytes)
    {
        try
        {
            _write(folder, NameOf(++_number), bytes);
        }
        catch (IOException) when (_room > 0)
        {
            folder.Remove(RoomName);
            _room = 0;
            _write(folder, NameOf(_number), bytes);
        }
    }

    // For one that is twice as long.
    private void KeepRoom(OwnFolder folder, int length)
    {
        int wanted = (int)Math.Clamp(2L * length, RoomMin, DaemonState.LengthMax);
        if (_room >= wanted)
        {
            return;
        }
        folder.Remove(RoomName);
        _room = 0;
        try
        {
            _write(folder, RoomName, new byte[wanted]);
            _room = wanted;
        }
        catch (IOException)
        {
            // The disk is full: this state has found its place all the same.
        }
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
