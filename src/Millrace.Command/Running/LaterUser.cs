// A process that starts as root and becomes another user by itself, once it hides. One that was that user's from its first moment would show its open files and its environment to every
// other process of that user until it has come so far (proc(5), ptrace(2)).

using System.Globalization;

namespace Millrace.Command.Running;

internal static class LaterUser
{
    private const string Variable = "MILLRACE_LATER_USER";

    /// <summary>Has the process that is started with this environment become that user.</summary>
    public static void Describe(IDictionary<string, string?> environment, FileRights user) =>
        environment[Variable] = string.Join(',', (uint[])[user.User, user.Group, .. user.Groups]);

    /// <summary>Becomes the user that whoever has started this process wants it to be; does nothing where none is named. From now on no other process of its user looks into it.</summary>
    /// <exception cref="CommandFailure">It cannot.</exception>
    public static void Become()
    {
        Posix.HideProcess();
        string? named = Environment.GetEnvironmentVariable(Variable);
        Environment.SetEnvironmentVariable(Variable, null);
        if (named is null)
        {
            return;
        }
        uint[] numbers = [.. named.Split(',').Select(static number => uint.Parse(number, CultureInfo.InvariantCulture))];
        if (!Posix.TryBecome(new FileRights(numbers[0], numbers[1], numbers[2..])))
        {
            throw new CommandFailure(ExitCode.Failure, $"This process may not become user {numbers[0]}. Leave the daemon CAP_SETUID and CAP_SETGID, or \"user\" out.");
        }
        Posix.HideProcess();        // the change of user has undone it where fs.suid_dumpable says so
        string program = typeof(LaterUser).Assembly.Location;
        try
        {
            File.OpenHandle(program).Dispose();
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw new CommandFailure(ExitCode.Failure, $"User {numbers[0]} may not read {program}: install Millrace where every user may read it, or leave \"user\" out.");
        }
    }
}
