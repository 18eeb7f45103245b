// Flags, options and commands, under the names the manual pages give them. The values of Linux on x64 and arm64, where they agree.

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    // epoll(7)
    public const uint EPOLLIN = 0x001;
    public const uint EPOLLPRI = 0x002;
    public const uint EPOLLOUT = 0x004;
    public const uint EPOLLERR = 0x008;
    public const uint EPOLLHUP = 0x010;
    public const uint EPOLLRDHUP = 0x2000;
    public const uint EPOLLEXCLUSIVE = 1u << 28;
    public const uint EPOLLONESHOT = 1u << 30;
    public const uint EPOLLET = 1u << 31;
    public const int EPOLL_CTL_ADD = 1;
    public const int EPOLL_CTL_DEL = 2;
    public const int EPOLL_CTL_MOD = 3;
    public const int EPOLL_CLOEXEC = 0x80000;
    public const int EFD_CLOEXEC = 0x80000;
    public const int EFD_NONBLOCK = 0x800;

    // socket(2)
    public const int AF_UNIX = 1;
    public const int AF_INET = 2;
    public const int AF_INET6 = 10;
    public const int SOCK_STREAM = 1;
    public const int SOCK_NONBLOCK = 0x800;
    public const int SOCK_SEQPACKET = 5;
    public const int SOCK_CLOEXEC = 0x80000;

    // sched(7)
    public const int SCHED_OTHER = 0;
    public const int SCHED_BATCH = 3;

    // send(2), recv(2), shutdown(2)
    public const int MSG_PEEK = 0x2;
    public const int MSG_DONTWAIT = 0x40;
    public const int MSG_NOSIGNAL = 0x4000;
    public const int MSG_MORE = 0x8000;
    public const int MSG_CMSG_CLOEXEC = 0x40000000;
    public const int SCM_RIGHTS = 1;
    public const int SCM_PIDFD = 4; // from Linux 6.5 on
    public const int SHUT_RD = 0;
    public const int SHUT_WR = 1;
    public const int SHUT_RDWR = 2;

    // socket(7), tcp(7), ipv6(7)
    public const int SOL_SOCKET = 1;
    public const int SO_REUSEADDR = 2;
    public const int SO_TYPE = 3;
    public const int SO_ERROR = 4;
    public const int SO_SNDBUF = 7;
    public const int SO_RCVBUF = 8;
    public const int SO_LINGER = 13;
    public const int SO_REUSEPORT = 15;
    public const int SO_PEERCRED = 17;
    public const int SO_ATTACH_FILTER = 26;
    public const int SO_ACCEPTCONN = 30;
    public const int SO_DOMAIN = 39;
    public const int SO_INCOMING_CPU = 49;
    public const int SO_PASSRIGHTS = 83; // from Linux 6.16 on
    public const int IPPROTO_TCP = 6;
    public const int TCP_NODELAY = 1;
    public const int TCP_QUICKACK = 12;
    public const int TCP_USER_TIMEOUT = 18;
    public const int TCP_NOTSENT_LOWAT = 25;
    public const int IPPROTO_IPV6 = 41;
    public const int IPV6_V6ONLY = 26;

    // socket(7), SO_ATTACH_FILTER: operations of classic BPF
    public const int BPF_LD = 0x00;
    public const int BPF_JMP = 0x05;
    public const int BPF_RET = 0x06;
    public const int BPF_K = 0x00;
    public const int BPF_ABS = 0x20;
    public const int BPF_B = 0x10;
    public const int BPF_JSET = 0x40;

    // tcp(7), unix(7): the same number for both
    public const uint SIOCINQ = 0x541B;
    public const uint SIOCOUTQ = 0x5411;

    // fcntl(2), open(2)
    public const int F_GETFD = 1;
    public const int F_SETFD = 2;
    public const int F_GETFL = 3;
    public const int F_SETFL = 4;
    public const int F_DUPFD_CLOEXEC = 1030;
    public const int F_SETPIPE_SZ = 1031;
    public const int F_GETPIPE_SZ = 1032;
    public const int FD_CLOEXEC = 1;
    public const int O_WRONLY = 1;
    public const int O_RDWR = 2;
    public const int O_CREAT = 0x40;
    public const int O_TRUNC = 0x200;
    public const int O_EXCL = 0x80;
    public const int O_NOCTTY = 0x100;
    public const int O_NONBLOCK = 0x800;
    public const int O_CLOEXEC = 0x80000;
    public const int O_PATH = 0x20_0000;

    // flock(2)
    public const int LOCK_EX = 2;
    public const int LOCK_NB = 4;

    // statx(2), inode(7), chown(2), rename(2)
    public const int AT_FDCWD = -100;
    public const int AT_SYMLINK_NOFOLLOW = 0x100;
    public const int AT_EMPTY_PATH = 0x1000;
    public const uint STATX_BASIC_STATS = 0x7ff;
    public const int S_IFMT = 0xF000;
    public const int S_IFSOCK = 0xC000;
    public const int S_IFREG = 0x8000;
    public const int S_IFLNK = 0xA000;
    public const int S_IFDIR = 0x4000;
    public const int S_IFIFO = 0x1000;
    public const int RENAME_NOREPLACE = 1;
    public const uint KeepId = uint.MaxValue;

    // getrlimit(2)
    public const int RLIMIT_NOFILE = 7;

    /// <summary>Room for any socket address: sockaddr_un is the longest at 110 bytes.</summary>
    public const int SocketAddressSizeMax = 112;
}
