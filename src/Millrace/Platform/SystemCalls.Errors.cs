// Error numbers of Linux on x64 and arm64, and their names for people. What to do about an error is the caller's business.

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    public const int EPERM = 1;
    public const int ENOENT = 2;
    public const int EINTR = 4;
    public const int EIO = 5;
    public const int E2BIG = 7;
    public const int EBADF = 9;
    public const int EAGAIN = 11;
    public const int ENOMEM = 12;
    public const int EACCES = 13;
    public const int EEXIST = 17;
    public const int ENOTDIR = 20;
    public const int EINVAL = 22;
    public const int ENFILE = 23;
    public const int EMFILE = 24;
    public const int ENOSPC = 28;
    public const int EROFS = 30;
    public const int EPIPE = 32;
    public const int ERANGE = 34;
    public const int ENAMETOOLONG = 36;
    public const int ENOSYS = 38;
    public const int ELOOP = 40;
    public const int EPROTO = 71;
    public const int ENOTSOCK = 88;
    public const int EPROTOTYPE = 91;
    public const int ENOPROTOOPT = 92;
    public const int EOPNOTSUPP = 95;
    public const int EAFNOSUPPORT = 97;
    public const int EADDRINUSE = 98;
    public const int EADDRNOTAVAIL = 99;
    public const int ENETDOWN = 100;
    public const int ENETUNREACH = 101;
    public const int ECONNABORTED = 103;
    public const int ECONNRESET = 104;
    public const int ENOBUFS = 105;
    public const int ETOOMANYREFS = 109;
    public const int EISCONN = 106;
    public const int ENOTCONN = 107;
    public const int ETIMEDOUT = 110;
    public const int ECONNREFUSED = 111;
    public const int EHOSTUNREACH = 113;
    public const int EALREADY = 114;
    public const int EINPROGRESS = 115;

    /// <summary>An error number as people read it: <c>EADDRINUSE (address already in use)</c>.</summary>
    public static string Describe(int errno) => errno switch
    {
        EPERM => "EPERM (operation not permitted)",
        ENOENT => "ENOENT (no such file or directory)",
        EINTR => "EINTR (interrupted system call)",
        EIO => "EIO (input/output error)",
        E2BIG => "E2BIG (argument list too long)",
        EBADF => "EBADF (bad file descriptor)",
        EAGAIN => "EAGAIN (resource temporarily unavailable)",
        ENOMEM => "ENOMEM (out of memory)",
        EACCES => "EACCES (permission denied)",
        EEXIST => "EEXIST (file exists)",
        ENOTDIR => "ENOTDIR (not a directory)",
        EINVAL => "EINVAL (invalid argument)",
        ENFILE => "ENFILE (too many open files in the system)",
        EMFILE => "EMFILE (too many open files in this process)",
        ENOSPC => "ENOSPC (no space left)",
        EROFS => "EROFS (read-only file system)",
        EPIPE => "EPIPE (broken pipe)",
        ERANGE => "ERANGE (result too large)",
        ENAMETOOLONG => "ENAMETOOLONG (file name too long)",
        ENOSYS => "ENOSYS (system call not implemented)",
        ELOOP => "ELOOP (too many levels of symbolic links)",
        EPROTO => "EPROTO (protocol error)",
        ENOTSOCK => "ENOTSOCK (not a socket)",
        EPROTOTYPE => "EPROTOTYPE (wrong type of socket)",
        ENOPROTOOPT => "ENOPROTOOPT (option not available)",
        EOPNOTSUPP => "EOPNOTSUPP (operation not supported)",
        EAFNOSUPPORT => "EAFNOSUPPORT (address family not supported)",
        EADDRINUSE => "EADDRINUSE (address already in use)",
        EADDRNOTAVAIL => "EADDRNOTAVAIL (address not available on this machine)",
        ENETDOWN => "ENETDOWN (network is down)",
        ENETUNREACH => "ENETUNREACH (network is unreachable)",
        ECONNABORTED => "ECONNABORTED (connection aborted)",
        ECONNRESET => "ECONNRESET (connection reset by peer)",
        ENOBUFS => "ENOBUFS (no buffer space)",
        ETOOMANYREFS => "ETOOMANYREFS (too many descriptors are on their way)",
        EISCONN => "EISCONN (already connected)",
        ENOTCONN => "ENOTCONN (not connected)",
        ETIMEDOUT => "ETIMEDOUT (timed out)",
        ECONNREFUSED => "ECONNREFUSED (connection refused)",
        EHOSTUNREACH => "EHOSTUNREACH (no route to host)",
        EALREADY => "EALREADY (operation already in progress)",
        EINPROGRESS => "EINPROGRESS (operation in progress)",
        _ => string.Create(System.Globalization.CultureInfo.InvariantCulture, $"errno {errno}"),
    };
}
