// The way from / to the directory of a file, one component at a time: each entry is opened before it is looked at, links are followed by
// their text. Whoever can rename or replace a component decides where the path leads.
//
//   root's or the user's, and writable by nobody else ............ go on
//   root's or the user's, writable by others, with sticky bit .... go on: there they rename and remove only what is theirs (/tmp)
//   a link of root's or the user's ............................... go on where it leads
//   anything else ................................................ refuse

using Millrace.Platform;

namespace Millrace.Listeners;

/// <param name="user">Whom the file is for; root is trusted besides.</param>
/// <param name="file">An absolute path; its last component is not looked at.</param>
internal sealed unsafe class GuardedWalk(uint user, string file) : IDisposable
{
    // path_resolution(7), and PATH_MAX of limits.h.
    private const int LinksMax = 40;
    private const int PathBytesMax = 4096;

    private readonly Stack<string> _rest = new();
    private int _at = -1;
    private string _here = "/";
    private int _links;

    /// <summary>Answers the descriptor of the directory, which is the caller's, or -1 with <paramref name="errno"/> set when the way does not lead there.</summary>
    /// <exception cref="MillraceStartException">Somebody else could exchange the file.</exception>
    public int Go(out int errno)
    {
        Push(Path.GetDirectoryName(file)!);
        errno = EnterRoot();
        while (errno == 0 && _rest.TryPop(out string? name))
        {
            errno = Step(name);
        }

        if (errno != 0)
        {
            return -1;
        }

        (int found, _at) = (_at, -1);
        return found;
    }

    public void Dispose() => Leave();

    private int EnterRoot()
    {
        int root = SocketDirectory.OpenEntry(SystemCalls.AT_FDCWD, "/", out int errno);
        return root < 0 ? errno : Enter(root, "/");
    }

    private int Step(string name)
    {
        int next = SocketDirectory.OpenEntry(_at, name, out int errno);
        return next < 0 ? errno : Enter(next, name == ".." ? Path.GetDirectoryName(_here) ?? "/" : Path.Combine(_here, name));
    }

    // Takes the descriptor over, whatever it turns out to be.
    private int Enter(int next, string place)
    {
        bool isKept = false;
        try
        {
            if (FileFacts.Of(next, out int errno) is not FileFacts facts)
            {
                return errno;
            }

            RequireOwner(facts, place);
            if (facts.IsLink)
            {
                return Follow(next);
            }

            if (!facts.IsDirectory)
            {
                return SystemCalls.ENOTDIR;
            }

            RequireMode(facts, place);
            Leave();
            (_at, _here, isKept) = (next, place, true);
            return 0;
        }
        finally
        {
            if (!isKept)
            {
                _ = SystemCalls.Close(next);
            }
        }
    }

    private int Follow(int link)
    {
        byte* text = stackalloc byte[PathBytesMax];
        byte empty = 0;
        nint length = SystemCalls.ReadLinkAt(link, &empty, text, PathBytesMax);
        if (length is <= 0 or PathBytesMax || ++_links > LinksMax)
        {
            return SystemCalls.ELOOP;
        }

        string target = System.Text.Encoding.UTF8.GetString(text, (int)length);
        Push(target);
        return target[0] == '/' ? EnterRoot() : 0;
    }

    private void Push(string path)
    {
        foreach (string name in path.Split('/', StringSplitOptions.RemoveEmptyEntries).Reverse())
        {
            _rest.Push(name);
        }
    }

    private void Leave()
    {
        if (_at >= 0)
        {
            _ = SystemCalls.Close(_at);
            _at = -1;
        }
    }

    private void RequireOwner(in FileFacts facts, string place)
    {
        if (facts.User != 0 && facts.User != user && Accounts.IsMapped(facts.User))
        {
            throw new MillraceStartException(
                $"{place}, on the way to {file}, belongs to user {facts.User}, who could put another file in its place; choose a directory that belongs to {Trusted} (such as one under /run), or run this process as that user.");
        }
    }

    private void RequireMode(in FileFacts facts, string place)
    {
        if (facts.IsWritableByOthers && !facts.Mode.HasFlag(UnixFileMode.StickyBit))
        {
            throw new MillraceStartException(
                $"{place}, on the way to {file}, has mode {facts.ModeText}: others may write there, and could put another file in its place; take that right from them (chmod go-w {place}), or choose a directory that nobody but {Trusted} may write to (such as one under /run).");
        }
    }

    private string Trusted => user == 0 ? "root" : $"root or user {user}";
}
