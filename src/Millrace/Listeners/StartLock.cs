// Of servers that start at the same moment on one path one goes ahead: who holds this lock looks at what is there, makes room, binds and
// listens, and none of the others sees anything between the first and the last of it. The kernel lets go of it when its holder dies.
//
// It is taken on a file of its own beside the socket, which only its owner can open. On the directory itself everybody who may read it could
// take a lock, and on a name of the network namespace everybody: any user of the machine could then hold up a start.
//
//   make the file, closed to everybody else; or open the one that is there ..... another user's, or open to others: go on without
//   lock it, for at most a second ............................................. held by somebody who does not go on: go on without
//   is it still the file of that name? ........................................ no: its holder has removed it; begin again
//
// Nothing depends on it but the order of those who start: without it each takes care of the others as UnixListener says.

using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>Held from <see cref="Take"/> to the end of the start, whose file it takes away again.</summary>
internal sealed unsafe class StartLock : IDisposable
{
    private const int LooksMax = 200;
    private const int LookAgainMs = 5;
    private const uint OwnerOnly = 0x180;

    private const int HowToOpen = SystemCalls.O_RDWR | SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC;

    private readonly SocketDirectory _directory;
    private readonly string _name;
    private readonly int _descriptor;

    private StartLock(SocketDirectory directory, string name, int descriptor) => (_directory, _name, _descriptor) = (directory, name, descriptor);

    /// <summary>The file beside a socket of this name.</summary>
    public static string NameFor(string socket) => $".millrace-lock-{socket}";

    /// <summary>Waits until nobody else has it. Null when it cannot be had.</summary>
    /// <param name="directory">Where the socket will lie; stays open as long as the lock.</param>
    /// <param name="socket">The socket's name there.</param>
    /// <param name="between">Called with "wait" each time somebody else has it.</param>
    public static StartLock? Take(SocketDirectory directory, string socket, Action<string>? between = null)
    {
        string name = NameFor(socket);
        for (int looks = 0; looks < LooksMax; looks++)
        {
            int descriptor = Open(directory, name, out bool isGone);
            if (descriptor < 0 && !isGone)
            {
                return null;
            }

            if (descriptor >= 0)
            {
                int errno = SystemCalls.LockFile(descriptor, SystemCalls.LOCK_EX | SystemCalls.LOCK_NB) < 0 ? SystemCalls.Errno : 0;
                if (errno == 0 && IsInPlace(directory, name, descriptor))
                {
                    return new StartLock(directory, name, descriptor);
                }

                _ = SystemCalls.Close(descriptor);
                if (errno == SystemCalls.EAGAIN)
                {
                    between?.Invoke("wait");
                    Thread.Sleep(LookAgainMs);
                }
                else if (errno is not (0 or SystemCalls.EINTR))
                {
                    return null;
                }
            }
        }

        return null;
    }

    /// <summary>Lets the next one go ahead. The name goes first, so that whoever waits for this file finds out that it is not the one any more.</summary>
    public void Dispose()
    {
        if (IsInPlace(_directory, _name, _descriptor))
        {
            _ = _directory.RemoveEntry(_name);
        }

        _ = SystemCalls.Close(_descriptor);
    }

    // Never through a link, and without waiting for whatever else somebody may have put there.
    private static int Open(SocketDirectory directory, string name, out bool isGone)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            int flags = HowToOpen | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW;
            isGone = false;
            int descriptor = SystemCalls.CreateAt(directory.Descriptor, at, flags | SystemCalls.O_CREAT | SystemCalls.O_EXCL, OwnerOnly);
            if (descriptor >= 0 || SystemCalls.Errno != SystemCalls.EEXIST)
            {
                return descriptor;
            }

            descriptor = SystemCalls.OpenAt(directory.Descriptor, at, flags);
            isGone = descriptor < 0 && SystemCalls.Errno == SystemCalls.ENOENT;
            if (descriptor < 0 || IsOnlyMine(descriptor))
            {
                return descriptor;
            }

            _ = SystemCalls.Close(descriptor);
            return -1;
        }
    }

    private static bool IsOnlyMine(int descriptor) =>
        FileFacts.Of(descriptor, out _) is { IsFile: true, IsOpenToOthers: false } facts && facts.User == SystemCalls.GetEffectiveUser();

    private static bool IsInPlace(SocketDirectory directory, string name, int descriptor) =>
        FileFacts.Of(descriptor, out _) is FileFacts held && FileFacts.At(directory.Descriptor, name, out _) is FileFacts now && now.IsSame(held);
}
