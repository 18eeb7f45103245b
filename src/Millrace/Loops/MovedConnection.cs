// What one server tells another of a connection that it gives away: nothing but this goes with the descriptor, since a connection is given away only
// while it is idle, and bytes that nobody has read are in its socket.
//
//   version   flags   what the protocol knows   until when it may be idle   address of the peer (TCP: as the kernel gives it)
//   1 byte    1 byte  1 byte                    8 bytes                     0 to 128 bytes

using System.Buffers.Binary;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Loops;

/// <param name="Protocol">What is spoken on it.</param>
/// <param name="IsTcp">Or a Unix socket.</param>
/// <param name="Knowledge">Bits that mean something to the protocol alone.</param>
/// <param name="IdleUntilMs">When its idle time is over, or that for a first head where nothing has ever come: on the clock of all processes of this machine (<see cref="IKernel.NowMs"/>).
/// 0: it has only just been accepted.</param>
/// <param name="Peer">The peer's address; empty where it is a Unix socket.</param>
internal sealed record MovedConnection(ListenProtocol Protocol, bool IsTcp, byte Knowledge, long IdleUntilMs, byte[] Peer)
{
    /// <summary>Bytes it takes at most.</summary>
    public const int SizeMax = HeadSize + 128;

    private const int TimeAt = 3;
    private const int HeadSize = TimeAt + sizeof(long);
    private const byte Version = 2;
    private const byte Timeless = 1;        // of a process that was started by a version before: it says nothing of the time
    private const byte HttpFlag = 1;
    private const byte TcpFlag = 2;
    private const byte UncountedFlag = 4;
    private const byte FlagsMax = HttpFlag | TcpFlag | UncountedFlag;

    // One for each value of the flags.
    private static readonly ListenAddress[] s_addresses = [.. Enumerable.Range(0, FlagsMax + 1).Select(static flags => new ListenAddress
    {
        Protocol = (flags & HttpFlag) != 0 ? ListenProtocol.Http1 : ListenProtocol.FastCgi,
        Kind = (flags & TcpFlag) != 0 ? EndPointKind.Tcp : EndPointKind.Unix,
        IsUncounted = (flags & UncountedFlag) != 0,
    })];

    /// <summary>It was accepted on an address with gate=off.</summary>
    public bool IsUncounted { get; init; }

    /// <summary>Stands for the one it was accepted on: its kind, and whether it counts, are all that matters of that.</summary>
    public ListenAddress Address => s_addresses[Flags];

    private byte Flags => (byte)((Protocol == ListenProtocol.Http1 ? HttpFlag : 0) | (IsTcp ? TcpFlag : 0) | (IsUncounted ? UncountedFlag : 0));

    /// <summary>Answers as <see cref="IKernel.Give"/>.</summary>
    public int Give<TKernel>(TKernel kernel, int channel, int descriptor)
        where TKernel : struct, IKernel
    {
        Span<byte> message = stackalloc byte[SizeMax];
        return kernel.Give(channel, descriptor, message[..Write(message)]);
    }

    /// <summary>Answers as <see cref="IKernel.Take"/>. No socket, and no failure: it came from a server that this one does not understand, or that says of it what it is not (a loop closes what is
    /// over TCP in another way), and is closed.</summary>
    public static int Take<TKernel>(TKernel kernel, int channel, out AcceptedSocket? taken, out int[] strange)
        where TKernel : struct, IKernel
    {
        Span<byte> message = stackalloc byte[SizeMax];
        int descriptor = kernel.Take(channel, message, out int length, out strange);
        taken = null;
        if (descriptor >= 0)
        {
            try
            {
                taken = Read(message[..length]) is { } its && its.IsTcp == kernel.IsTcp(descriptor) ? new AcceptedSocket(descriptor, its.Address, its.Peer, its) : null;
            }
            finally
            {
                if (taken is null)
                {
                    kernel.Close(descriptor, reset: false);     // also where there is no memory for it
                }
            }
        }

        return descriptor;
    }

    /// <summary>Bytes written.</summary>
    public int Write(Span<byte> message)
    {
        message[0] = Version;
        message[1] = Flags;
        message[2] = Knowledge;
        BinaryPrimitives.WriteInt64LittleEndian(message[TimeAt..], IdleUntilMs);
        Peer.CopyTo(message[HeadSize..]);
        return HeadSize + Peer.Length;
    }

    /// <summary>Null: it comes from a server that this one does not understand.</summary>
    public static MovedConnection? Read(ReadOnlySpan<byte> message) =>
        message is [Version, <= FlagsMax, ..] && message.Length is >= HeadSize and <= SizeMax ? Read(message, BinaryPrimitives.ReadInt64LittleEndian(message[TimeAt..]), HeadSize)
        : message is [Timeless, <= (HttpFlag | TcpFlag), _, ..] && message.Length <= SizeMax ? Read(message, long.MaxValue, TimeAt)
        : null;

    private static MovedConnection Read(ReadOnlySpan<byte> message, long idleUntilMs, int headSize) =>
        new((message[1] & HttpFlag) != 0 ? ListenProtocol.Http1 : ListenProtocol.FastCgi, (message[1] & TcpFlag) != 0, message[2], idleUntilMs, message[headSize..].ToArray())
        {
            IsUncounted = (message[1] & UncountedFlag) != 0,
        };
}
