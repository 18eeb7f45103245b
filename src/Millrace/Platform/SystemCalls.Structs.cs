// What the kernel reads and writes behind a pointer. Layouts are those of Linux on x64 and arm64, 64-bit, little-endian.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    // struct epoll_event            x64 (packed)      arm64 (natural)
    //   uint32_t events             offset 0          offset 0
    //   uint64_t data               offset 4          offset 8
    //   size                        12                16
    // An array of them is therefore bytes with a stride; both numbers fold to constants once the methods are compiled for speed.

    /// <summary>Bytes per event in the array that <see cref="EpollWait"/> fills.</summary>
    public static readonly int EpollEventSize = ArchitectureNumbers.Here.EpollEventSize;

    private static readonly int EpollDataOffset = ArchitectureNumbers.Here.EpollDataOffset;

    /// <summary>The EPOLL* bits of event number <paramref name="index"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint EpollEvents(byte* events, int index) =>
        Unsafe.ReadUnaligned<uint>(events + ((nint)index * EpollEventSize));

    /// <summary>The value given to <see cref="EpollControl"/> for the descriptor of event number <paramref name="index"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong EpollData(byte* events, int index) =>
        Unsafe.ReadUnaligned<ulong>(events + ((nint)index * EpollEventSize) + EpollDataOffset);

    /// <summary>struct timespec.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct TimeSpecification
    {
        public long Seconds;
        public long Nanoseconds;
    }

    /// <summary>struct iovec.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct IoVector
    {
        public void* Base;
        public nint Length;
    }

    /// <summary>struct msghdr.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct MessageHeader
    {
        public void* Name;
        public uint NameLength;
        public IoVector* Vectors;
        public nint VectorCount;
        public void* Control;
        public nint ControlLength;
        public int Flags;
    }

    /// <summary>struct cmsghdr with one descriptor behind it, and what CMSG_SPACE adds.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct DescriptorMessage(int descriptor)
    {
        public nint Length = Size;
        public int Level = SOL_SOCKET;
        public int Type = SCM_RIGHTS;
        public int Descriptor = descriptor;
        public int Padding;

        /// <summary>CMSG_LEN of one descriptor.</summary>
        public const int Size = 16 + sizeof(int);
    }

    /// <summary>struct rlimit.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct ResourceLimit
    {
        public ulong Soft;
        public ulong Hard;
    }

    /// <summary>struct linger; on with zero seconds makes close send a reset.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Linger
    {
        public int On;
        public int Seconds;
    }

    /// <summary>struct sock_filter: one instruction of a classic BPF program. Jumps are counted from the next instruction.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct FilterInstruction
    {
        public ushort Code;
        public byte JumpIfTrue;
        public byte JumpIfFalse;
        public uint Operand;
    }

    /// <summary>struct sock_fprog, the value of SO_ATTACH_FILTER.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct FilterProgram
    {
        public ushort Length;
        public FilterInstruction* Instructions;
    }

    /// <summary>struct ucred, the answer of SO_PEERCRED. Process 0 means a process outside this process namespace.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct PeerCredentials
    {
        public int Process;
        public uint User;
        public uint Group;
    }

    /// <summary>struct statx, the fields that are read here. The same on every architecture, unlike struct stat.</summary>
    [StructLayout(LayoutKind.Explicit, Size = 256)]
    public struct FileStatus
    {
        /// <summary>How many entries name the file.</summary>
        [FieldOffset(16)]
        public uint Links;

        [FieldOffset(20)]
        public uint User;

        [FieldOffset(24)]
        public uint Group;

        /// <summary>File type (<see cref="S_IFMT"/>) and permission bits.</summary>
        [FieldOffset(28)]
        public ushort Mode;

        [FieldOffset(32)]
        public ulong Inode;

        [FieldOffset(40)]
        public ulong Size;

        /// <summary>When it was written: seconds since 1970.</summary>
        [FieldOffset(112)]
        public long WrittenSeconds;

        [FieldOffset(120)]
        public uint WrittenNanoseconds;

        [FieldOffset(136)]
        public uint DeviceMajor;

        [FieldOffset(140)]
        public uint DeviceMinor;
    }

    /// <summary>struct group, as far as it is read.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct GroupEntry
    {
        public byte* Name;
        public byte* Password;
        public uint Id;
        public byte** Members;
    }

    /// <summary>struct passwd.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct UserEntry
    {
        public byte* Name;
        public byte* Password;
        public uint Id;
        public uint Group;
        public byte* Comment;
        public byte* Home;
        public byte* Shell;
    }
}
