// What differs between x64 and arm64: numbers of system calls that the C library has no function for, flags of open(2), and the layout of
// epoll_event. Everything else in SystemCalls is the same on both.

using System.Runtime.InteropServices;

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    /// <summary>Numbers under the names that the C headers give them.</summary>
    public readonly struct ArchitectureNumbers
    {
        /// <summary>Of the architecture this process runs on.</summary>
        public static readonly ArchitectureNumbers Here = Of(RuntimeInformation.ProcessArchitecture);

        /// <summary>statx(2); musl has a function for it since 1.2.5 only.</summary>
        public int SYS_statx { get; private init; }

        /// <summary>renameat2(2); musl has a function for it since 1.2.6 only.</summary>
        public int SYS_renameat2 { get; private init; }

        /// <summary>fchmodat2(2), Linux 6.6.</summary>
        public int SYS_fchmodat2 { get; private init; }

        /// <summary>gettid(2); glibc has a function for it since 2.30 only.</summary>
        public int SYS_gettid { get; private init; }

        /// <summary>sched_getscheduler(2) and sched_setscheduler(2), of single threads; musl's functions refuse.</summary>
        public int SYS_sched_getscheduler { get; private init; }

        public int SYS_sched_setscheduler { get; private init; }

        /// <summary>setgroups(2) of a single thread: the C library's function changes all of them.</summary>
        public int SYS_setgroups { get; private init; }

        public int O_DIRECTORY { get; private init; }

        public int O_NOFOLLOW { get; private init; }

        /// <summary>sizeof(struct epoll_event): packed on x64, natural elsewhere.</summary>
        public int EpollEventSize { get; private init; }

        /// <summary>offsetof(struct epoll_event, data).</summary>
        public int EpollDataOffset { get; private init; }

        public static ArchitectureNumbers Of(Architecture architecture) => architecture == Architecture.X64
            ? new()
            {
                SYS_statx = 332,
                SYS_renameat2 = 316,
                SYS_fchmodat2 = 452,
                SYS_gettid = 186,
                SYS_sched_getscheduler = 145,
                SYS_sched_setscheduler = 144,
                SYS_setgroups = 116,
                O_DIRECTORY = 0x1_0000,
                O_NOFOLLOW = 0x2_0000,
                EpollEventSize = 12,
                EpollDataOffset = 4,
            }
            : new()
            {
                SYS_statx = 291,
                SYS_renameat2 = 276,
                SYS_fchmodat2 = 452,
                SYS_gettid = 178,
                SYS_sched_getscheduler = 120,
                SYS_sched_setscheduler = 119,
                SYS_setgroups = 159,
                O_DIRECTORY = 0x4000,
                O_NOFOLLOW = 0x8000,
                EpollEventSize = 16,
                EpollDataOffset = 8,
            };
    }
}
