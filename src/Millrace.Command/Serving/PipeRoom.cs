// How much of what an application prints has room while nobody reads it. An application that writes a line for each request fills the 64 KiB that a pipe holds in a tenth of a second, and then its
// requests wait: while the daemon becomes another program, and when it has been killed and the next one starts.

using System.IO.Pipes;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="pipesMax">Pipes that have more than the system gives them.</param>
internal sealed class PipeRoom(int pipesMax)
{
    /// <summary>Bytes that a pipe holds.</summary>
    public const int Bytes = 256 * 1024;

    /// <summary>Pipes of a daemon that hold so much. All together they are a quarter of what the pipes of one user may hold where the system says nothing else (pipe-user-pages-soft in pipe(7)): beyond that each new one gets two pages.</summary>
    public const int PipesMax = 64;

    private int _pipes;

    /// <summary>That of this process.</summary>
    public static PipeRoom OfProcess { get; } = new(PipesMax);

    /// <returns>False: it has what the system gives it. Otherwise <see cref="Leave"/> is to follow.</returns>
    public bool TryWiden(PipeStream pipe)
    {
        if (Interlocked.Increment(ref _pipes) <= pipesMax && SystemCalls.Fcntl((int)pipe.SafePipeHandle.DangerousGetHandle(), SystemCalls.F_SETPIPE_SZ, Bytes) >= Bytes)
        {
            return true;
        }
        Leave();
        return false;
    }

    /// <summary>One that was given more is not read any more.</summary>
    public void Leave() => Interlocked.Decrement(ref _pipes);
}
