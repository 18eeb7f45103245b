// The directory that `run` makes for its sockets. Everybody may write in /tmp and knows its name: what is found there is used only when
// it is a directory, this user's, and open to nobody else; and it is looked at and changed by its descriptor, never by its path.

using System.Globalization;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static unsafe class OwnDirectory
{
    private const UnixFileMode User = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;

    // A group may enter, and look around: to write there is for the user alone.
    private const UnixFileMode Wide =
        UnixFileMode.GroupWrite | UnixFileMode.OtherRead | UnixFileMode.OtherWrite | UnixFileMode.OtherExecute;

    private const UnixFileMode Passing = UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;

    /// <summary>Makes the directory where it is lacking, open to this user and, if named, to a group, which may enter it.</summary>
    /// <param name="path">The directory.</param>
    /// <param name="group">Whom it is opened to besides.</param>
    /// <param name="cure">What to do where it is not to be trusted, a sentence.</param>
    /// <param name="cureOfParent">The same where that lies above it; the parent's own cure stands before it.</param>
    /// <exception cref="CommandFailure">It cannot be made, or what is there is not to be trusted.</exception>
    public static void Prepare(string path, WebServerGroup? group, string cure, string cureOfParent) =>
        Prepare(path, group, isPassable: false, "was to hold the socket", cure, cureOfParent);

    /// <summary>Makes a directory where it is lacking that everybody may pass through, to what its name is known of, and nobody else look around in.</summary>
    /// <param name="path">The directory.</param>
    /// <param name="purpose">What it is for, as in "was to hold ...".</param>
    /// <param name="cure">What to do where it is not to be trusted, a sentence.</param>
    /// <exception cref="CommandFailure">It cannot be made, or what is there is not to be trusted.</exception>
    public static void PreparePassable(string path, string purpose, string cure) =>
        Prepare(path, group: null, isPassable: true, purpose, cure, cureOfParent: cure);

    /// <summary>The same, open to this user alone.</summary>
    public static void PrepareClosed(string path, string purpose, string cure) =>
        Prepare(path, group: null, isPassable: false, purpose, cure, cureOfParent: cure);

    private static void Prepare(string path, WebServerGroup? group, bool isPassable, string purpose, string cure, string cureOfParent)
    {
        try
        {
            Prepare(path, group, isPassable);
        }
        catch (NotOwnException refusal)
        {
            throw new CommandFailure(ExitCode.Failure, $"{path} {purpose}, but it {refusal.Message}. {cure}");
        }
        catch (MillraceStartException refusal)
        {
            throw new CommandFailure(ExitCode.Failure, $"{refusal.Message} {cureOfParent}");
        }
    }

    private static void Prepare(string path, WebServerGroup? group, bool isPassable)
    {
        using SocketDirectory parent = SocketDirectory.OpenFor(SystemCalls.GetEffectiveUser(), path, out int errno) ?? throw new NotOwnException($"cannot be made ({SystemCalls.Describe(errno)})");
        fixed (byte* name = FileFacts.Encode(Path.GetFileName(path)))
        {
            if (SystemCalls.MakeDirectoryAt(parent.Descriptor, name, (uint)User) < 0 && SystemCalls.Errno is not SystemCalls.EEXIST and var failed)
            {
                throw new NotOwnException($"cannot be made ({SystemCalls.Describe(failed)})");
            }
        }

        int directory = parent.OpenEntry(Path.GetFileName(path), out errno);
        if (directory < 0)
        {
            throw new NotOwnException($"cannot be opened ({SystemCalls.Describe(errno)})");
        }

        try
        {
            RequireOwn(FileFacts.Of(directory, out _), isPassable ? Wide & ~Passing : Wide);
            GiveTo(directory, group, isPassable ? Passing : 0);
        }
        finally
        {
            _ = SystemCalls.Close(directory);
        }
    }

    /// <summary>Whether a directory belongs to this user and nobody else may write in it, as that of XDG_RUNTIME_DIR must (XDG Base Directory Specification).</summary>
    public static bool IsOwn(string path) =>
        FileFacts.At(path, out _) is { IsDirectory: true, IsWritableByOthers: false } facts && facts.User == SystemCalls.GetEffectiveUser();

    private static void RequireOwn(FileFacts? found, UnixFileMode tooWide)
    {
        if (found is not { IsDirectory: true } facts)
        {
            throw new NotOwnException(found is { IsLink: true } ? "is a link, which somebody may have put there to lead elsewhere" : "is not a directory");
        }

        if (facts.User != SystemCalls.GetEffectiveUser())
        {
            throw new NotOwnException(string.Create(CultureInfo.InvariantCulture, $"belongs to somebody else (user {facts.User})"));
        }

        if ((facts.Mode & tooWide) != 0)
        {
            throw new NotOwnException($"is open to others (mode {facts.ModeText}), who may have put something there");
        }
    }

    // The group before its right.
    private static void GiveTo(int directory, WebServerGroup? group, UnixFileMode more)
    {
        if (group is not null && SystemCalls.ChangeOwner(directory, SystemCalls.KeepId, group.Id) < 0)
        {
            throw new NotOwnException($"cannot be given to the group {group.Name} ({SystemCalls.Describe(SystemCalls.Errno)})");
        }

        if (SystemCalls.ChangeMode(directory, (uint)((group is null ? User : User | UnixFileMode.GroupExecute) | more)) < 0)
        {
            throw new NotOwnException($"cannot be given its mode ({SystemCalls.Describe(SystemCalls.Errno)})");
        }
    }

    // What is wrong, as the end of a sentence.
    private sealed class NotOwnException(string what) : Exception(what);
}
