// How often, in percent, the simulated kernel answers as it does on a bad day. None of it is the server's fault, and none
// of it may cost more than the connection it happens to.

namespace Millrace.Tests.Simulation;

internal sealed class SocketFaults
{
    /// <summary>A send takes less than there is room for.</summary>
    public int ShortSend { get; set; } = 15;

    /// <summary>A send or sendfile is refused (EAGAIN) although there is room; writability is told later.</summary>
    public int RefusedSend { get; set; }

    /// <summary>Accepting fails for want of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM).</summary>
    public int FailedAccept { get; set; }

    /// <summary>A connection cannot be registered with epoll (ENOSPC, ENOMEM).</summary>
    public int FailedWatch { get; set; }

    /// <summary>Events one wait gives at most.</summary>
    public int EventsMax { get; set; } = int.MaxValue;

    /// <summary>So many waits end without a look at the sockets (EINTR), as after SIGSTOP and SIGCONT.</summary>
    public int WaitsBrokenOff { get; set; }

    public bool AnyRefusing => FailedAccept > 0 || FailedWatch > 0;
}
