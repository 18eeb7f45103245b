// The code of an application as it was when a generation was started, for as long as its processes run: whoever copies a new version over the files, bit by bit,
// does not change what they have mapped. Code is copied (shared with the original where the file system can); everything else, the web root, settings and
// data, is a link to what lies in the folder itself, which stays the content root and the working directory.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed class CodeSnapshot : IDisposable
{
    private const string Purpose = "was to hold the applications' code";

    private static readonly TimeSpan s_quiet = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan s_lookAgain = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    private readonly string _parent;
    private readonly string _name;

    private CodeSnapshot(string parent, string name, string signature)
    {
        _parent = parent;
        _name = name;
        Signature = signature;
    }

    /// <summary>Of the code that it holds (<see cref="CodeFiles.Sign"/>).</summary>
    public string Signature { get; }

    public CodeState State => new(_parent, _name, Signature);

    /// <summary>One that was taken before.</summary>
    public static CodeSnapshot Resume(CodeState state) => new(state.Parent, state.Name, state.Signature);

    /// <summary>Copies the code beside an assembly when nobody has written there for half a second.</summary>
    /// <param name="assembly">The application's.</param>
    /// <param name="parent">Where to make it.</param>
    /// <param name="name">Of the copy.</param>
    /// <param name="reader">Who reads the code.</param>
    /// <exception cref="CommandFailure">It cannot be made; nothing of it is left.</exception>
    public static CodeSnapshot Take(string assembly, string parent, string name, CodeReader reader)
    {
        var copying = new Copying(reader);
        string folder = Path.GetDirectoryName(assembly)!;
        long giveUpAt = Environment.TickCount64 + (long)s_patience.TotalMilliseconds;
        while (Environment.TickCount64 < giveUpAt)
        {
            if (copying.Read(() => CodeFiles.Read(folder, reader.GoesOn)) is { } code && Take(code, parent, name, copying) is { } snapshot)
            {
                return snapshot;
            }
            _ = reader.Wanted.WaitHandle.WaitOne(s_lookAgain);
            reader.Wanted.ThrowIfCancellationRequested();
            reader.GoesOn();
        }
        throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"The files in {folder} have been written to for {s_patience.TotalSeconds:0} s without half a second's rest: whoever publishes there has not finished. Reload the application when that has ended."));
    }

    /// <summary>The application as it is started from here.</summary>
    public RunnableApp Move(RunnableApp app) => app with { Assembly = Move(app.Assembly)!, Executable = Move(app.Executable) };

    /// <summary>Makes the folder for the snapshots of one daemon. What earlier ones have left there is for <see cref="LeftSnapshots"/>.</summary>
    /// <param name="parent">Made where it is lacking, this user's alone to write to.</param>
    /// <param name="control">The daemon's socket, which no other daemon has.</param>
    /// <param name="runsAsOthers">Whether processes of other users run from there. Where none do, what is made above it stays closed: the next daemon may want its sockets there.</param>
    /// <returns>The folder.</returns>
    /// <exception cref="CommandFailure">It cannot be made, or others may write there.</exception>
    public static string Prepare(string parent, string control, bool runsAsOthers)
    {
        const string cure = "Name a folder of the daemon's own in the file, such as \"snapshots\": \"/var/cache/millrace\", or write \"snapshot\": false for every application.";
        if (Path.GetDirectoryName(parent) is { } above && !Directory.Exists(above))
        {
            Action<string, string, string> prepare = runsAsOthers ? OwnDirectory.PreparePassable : OwnDirectory.PrepareClosed;
            prepare(above, Purpose, cure);
        }
        OwnDirectory.PreparePassable(parent, Purpose, cure);
        string name = Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(control)))[..12];
        using OwnFolder all = OwnFolder.Open(parent);
        using OwnFolder folder = all.Make(name);
        folder.LetPass();
        return Path.Combine(parent, name);
    }

    // What cannot be removed now is found by the next daemon.
    public void Dispose()
    {
        try
        {
            using OwnFolder folder = OwnFolder.Open(_parent);
            folder.Remove(_name);
        }
        catch (IOException)
        {
        }
    }

    private static bool IsQuiet(CodeFolder code, Action seen)
    {
        TimeSpan age = DateTime.UtcNow - CodeFiles.WrittenUtc(code, seen);
        return age >= s_quiet || age < -s_quiet;        // clocks differ, and archives keep times
    }

    // Null when the files have changed meanwhile, or a moment ago.
    private static CodeSnapshot? Take(CodeFolder code, string parent, string name, Copying copying)
    {
        try
        {
            using OwnFolder folder = OwnFolder.Open(parent);
            return Take(code, folder, name, copying) is { } signature ? new CodeSnapshot(parent, name, signature) : null;
        }
        catch (Exception error) when (error is FileNotFoundException or DirectoryNotFoundException)
        {
            return null;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw new CommandFailure(ExitCode.Failure, $"The code in {code.Path} cannot be copied to {parent}/{name}: {error.Message}. Make room there and have the application reloaded, name another folder with \"snapshots\", or write \"snapshot\": false for the application.");
        }
    }

    private static string? Take(CodeFolder code, OwnFolder folder, string name, Copying copying)
    {
        string? before = copying.Read(() => CodeFiles.Sign(code, copying.Seen));
        if (!copying.Read(() => IsQuiet(code, copying.Seen)))
        {
            return null;
        }
        string? signature = null;
        try
        {
            using (OwnFolder copy = folder.Make(name))
            {
                copying.CopyAll(code, copy);
            }
            return signature = copying.Read(() => CodeFiles.Sign(CodeFiles.Read(code.Path, copying.Seen), copying.Seen)) == before ? before : null;
        }
        finally
        {
            if (signature is null)
            {
                folder.Remove(name);
            }
        }
    }

    private string? Move(string? path) => path is null ? null : Path.Combine(_parent, _name, Path.GetFileName(path));

    // The copy's processes may read it, and nobody but the daemon write: what is removed later is what was made here. What is read lies where others may write.
    private sealed class Copying(CodeReader reader)
    {
        private const long BytesMax = 16L * 1024 * 1024 * 1024;
        private const int FileMin = 64 * 1024;      // an empty file takes room as well
        private const int LinkMin = 4 * 1024;

        private long _left;
        private int _made;

        public Action Seen => reader.GoesOn;

        public T Read<T>(Func<T> read) => OtherUser.Read(reader.User, read);

        public void CopyAll(CodeFolder code, OwnFolder to)
        {
            (_left, _made) = (BytesMax, 0);
            Copy(code, to);
        }

        private void Copy(CodeFolder code, OwnFolder to)
        {
            string path = code.Path;
            HashSet<string> copied = [.. code.Files, .. code.Folders.Select(static folder => folder.Name)];
            foreach (string name in code.Files)
            {
                Count(path);
                Copy(Path.Combine(path, name), name, to);
            }
            foreach (var folder in code.Folders)
            {
                Count(path);
                using OwnFolder inner = to.Make(folder.Name);
                Copy(folder, inner);
            }
            foreach (string name in Read(() => NamesIn(path).Where(name => !copied.Contains(name)).Take(reader.EntriesMax - _made + 1).ToArray()))
            {
                Count(path);
                Spend(LinkMin, path);
                to.Link(name, Path.Combine(path, name));
            }
            if (reader.Group is { } id)
            {
                to.ShowTo(id);
            }
        }

        private IEnumerable<string> NamesIn(string path) => CodeFiles.Telling(Directory.EnumerateFileSystemEntries(path), Seen).Select(static entry => Path.GetFileName(entry));

        private void Copy(string path, string name, OwnFolder to)
        {
            reader.GoesOn();
            using SafeFileHandle source = Open(path);
            long length = RandomAccess.GetLength(source);
            Spend(Math.Max(length, FileMin), path);
            to.Copy(source, length, name, reader);
        }

        private void Count(string path)
        {
            reader.Wanted.ThrowIfCancellationRequested();
            reader.GoesOn();
            if (++_made > reader.EntriesMax)
            {
                throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"With {path} a copy of the application has more than {reader.EntriesMax:N0} files, folders and links. Keep what is no code in a folder without code, or write \"snapshot\": false for it."));
            }
        }

        private void Spend(long bytes, string path)
        {
            _left -= bytes;
            if (_left < 0)
            {
                throw new CommandFailure(ExitCode.Failure, $"With {path} the code of the application is larger than 16 GiB. Take what is no code out of its folder, or write \"snapshot\": false for it.");
            }
        }

        private SafeFileHandle Open(string path)
        {
            try
            {
                return Read(() => PlainFile.Open(path));
            }
            catch (UnauthorizedAccessException error)
            {
                string who = reader.User is not { } user ? "this daemon's user" : $"user {user.Name}, whom the application runs as,";
                throw new CommandFailure(ExitCode.Failure, $"{error.Message}. Let {who} read it, or take it out of the application's folder.");
            }
        }
    }
}
