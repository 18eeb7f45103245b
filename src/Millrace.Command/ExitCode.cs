// What the command's exit codes mean; the numbers of `get` are those curl uses for the same events.

namespace Millrace.Command;

internal static class ExitCode
{
    public const int Success = 0;
    public const int Failure = 1;
    public const int Usage = 2;
    public const int CannotConnect = 7;
    public const int StatusOf400OrMore = 22;
    public const int TimedOut = 28;
    public const int BrokenResponse = 56;

    /// <summary>As a shell shows a program that SIGPIPE has ended: 128 + 13.</summary>
    public const int ReaderGone = 141;
}
