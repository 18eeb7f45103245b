// One listening descriptor and its end. Accepting from it is the loops' part.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>Non-blocking, close-on-exec, already listening. TCP ones have TCP_NODELAY, which accepted sockets inherit on Linux.</summary>
internal sealed class ListenSocket : IDisposable
{
    // Of a client on the same machine, whose packets another processor is just carrying: some 50 us. Each ms would have more clients wait for their second.
    private static readonly TimeSpan s_handshake = TimeSpan.FromMilliseconds(0.25);

    // Unix sockets made here: the file that goes with the descriptor. Null for TCP and for what was inherited.
    private SocketFile? _file;
    private int _descriptor;

    public ListenSocket(int descriptor, ListenAddress address, SocketName name, int loop, SocketFile? file = null)
    {
        _descriptor = descriptor;
        _file = file;
        Address = address;
        Name = name;
        Loop = loop;
    }

    /// <summary>The descriptor, or -1 once disposed.</summary>
    public int Descriptor => Volatile.Read(ref _descriptor);

    /// <summary>No listening socket, but one end of a channel through which another server gives its connections (SOCK_SEQPACKET).</summary>
    public bool IsChannel { get; init; }

    /// <summary>Closes what comes through a channel and is no connection, and waits for none of it; null: threads of their own do.</summary>
    public Action<int[]>? CloseStrange { get; init; }

    /// <summary>The address as it was asked for, with the real port.</summary>
    public ListenAddress Address { get; }

    /// <summary>What the socket is really bound to: <c>localhost</c> and <c>*</c> are addresses here.</summary>
    public SocketName Name { get; }

    /// <summary>Which file goes with it (<see cref="FileFacts.Identity"/>); null where none does.</summary>
    public string? FileIdentity => _file?.Facts.Identity;

    /// <summary>Of a Unix socket: its path leads to nothing, or to another file, so that nobody finds it any more.</summary>
    public bool HasLostFile => FileFacts.At(Address.Path!, out int errno) is { } its ? _file is { } own && !own.Facts.IsSame(its) : errno is SystemCalls.ENOENT or SystemCalls.ENOTDIR;

    /// <summary>The loop this one is for, in [0, loops), or -1 for all of them.</summary>
    public int Loop { get; }

    /// <summary>True when all loops wait on this one descriptor (Unix, inherited); false when each loop has its own (TCP).</summary>
    public bool IsShared => Loop < 0;

    /// <summary>Of all loops that wait on it one is woken. Not of a channel: who has been woken may be the one that gives its connections away.</summary>
    public bool WakesOneLoop => IsShared && !IsChannel;

    /// <summary>
    /// Nobody can connect any more, but who waits can still be accepted. Only for a Unix socket that was made here: ending the reception of a TCP socket
    /// resets who waits in its queue (<see cref="HoldOff"/> instead), and an inherited socket is not ours to end: it listens on for others.
    /// </summary>
    public void Refuse()
    {
        if (_file is not null)
        {
            _file.RemoveIfSame();
            _ = SystemCalls.Shutdown(Descriptor, SystemCalls.SHUT_RD);
        }
    }

    /// <summary>
    /// Nobody new joins the queue of a TCP socket that was made here, but who waits can still be accepted: the kernel drops what would begin a connection
    /// (SYN; RFC 9293, section 3.5), and the client's system sends it again a second later (RFC 6298, section 2.1), to whoever listens then. Handshakes
    /// that have begun end as usual, and are given a moment for it. False, and nothing done, for all other sockets and where the kernel has no filters.
    /// </summary>
    public bool HoldOff()
    {
        if (Address.Kind != EndPointKind.Tcp || !ConnectionRequests.TryDrop(Descriptor))
        {
            return false;
        }

        long begun = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(begun) < s_handshake)
        {
            Thread.SpinWait(10);
        }

        return true;
    }

    /// <summary>
    /// The file that goes with it, for whoever removes it when nobody listens any more: its file system may stand still, and the socket is not to wait for it. Its folder
    /// is the caller's to close as well. Null where there is none.
    /// </summary>
    public SocketFile? TakeFile() => Interlocked.Exchange(ref _file, null);

    /// <summary>
    /// Has its number lead to what another one listens on at the same address, which is closed then: who knows the number need not be told. The file of a Unix socket is that one's. False, and nothing
    /// done, where it is closed.
    /// </summary>
    public bool TryBecome(ListenSocket other)
    {
        int last = Descriptor < 0 ? -1 : SystemCalls.Fcntl(Descriptor, SystemCalls.F_DUPFD_CLOEXEC, 0);
        if (last < 0)
        {
            return false;
        }

        // What the number has led to is closed elsewhere, with who waits in its queue and what he has sent: whoever has the socket too may have that take as long as he likes.
        bool isReplaced = SystemCalls.Dup3(other.Descriptor, Descriptor, SystemCalls.O_CLOEXEC) >= 0;
        ForeignDescriptor.Close(last);
        if (!isReplaced)
        {
            return false;
        }

        SocketFile? before = Interlocked.Exchange(ref _file, other.TakeFile());
        before?.Dispose();
        before?.Directory.Dispose();
        other.Dispose();
        return true;
    }

    /// <summary>Stops listening where somebody else, who has the socket too, goes on: what goes with it stays.</summary>
    public void Leave() => Close(removesFile: false);

    /// <summary>Stops listening. The file of a Unix socket goes first, and only when it is still the one that was made here.</summary>
    public void Dispose() => Close(removesFile: true);

    private void Close(bool removesFile)
    {
        int descriptor = Interlocked.Exchange(ref _descriptor, -1);
        if (descriptor < 0)
        {
            return;
        }

        if (removesFile)
        {
            _file?.RemoveIfSame();
        }

        _file?.Dispose();
        _file?.Directory.Dispose();
        _ = SystemCalls.Close(descriptor);
    }

    /// <summary>For people: the address, and for an inherited one what it is bound to.</summary>
    public override string ToString()
    {
        if (Address.Kind != EndPointKind.Inherited)
        {
            return Address.Url;
        }

        string bound = Name.Address is IPAddress address ? new IPEndPoint(address, Name.Port).ToString() : $"unix:{Name.Path}";
        return string.Create(CultureInfo.InvariantCulture, $"{Address.Url} ({bound})");
    }
}
