// A failure the user can understand and mend: one or two sentences, the second of them the cure.

namespace Millrace.Command;

internal sealed class CommandFailure(int exitCode, string sentences) : Exception(sentences)
{
    public int ExitCode { get; } = exitCode;

    public static CommandFailure Usage(string sentences) => new(Command.ExitCode.Usage, sentences);
}
