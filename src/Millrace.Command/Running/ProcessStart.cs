// Starts processes one at a time: whoever starts one passes on all that may be inherited at that moment, and what a daemon has its applications
// inherit is meant for one of them alone. So nothing that lies with an application may keep a start waiting: between fork and exec a child touches neither a folder nor a
// program of theirs, whose file system may stand still; and nobody waits for another's start without end.

using System.Diagnostics;
using System.Globalization;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static class ProcessStart
{
    private const string Env = "/usr/bin/env";
    private const string Nice = "/usr/bin/nice";
    private const string SetPriv = "/usr/bin/setpriv";
    private const string SetSid = "/usr/bin/setsid";
    private const string AnyUser = "65534";

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);
    private static readonly Lock s_one = new();
    private static readonly Lazy<bool> s_entersFolders = new(EntersFolders);
    private static volatile bool s_becomesUsers;
    private static volatile bool s_leavesSessions;
    private static long s_passedAt = Environment.TickCount64;       // from one to the next

    /// <exception cref="System.ComponentModel.Win32Exception">It cannot be started.</exception>
    /// <exception cref="CommandFailure">Another one is being started, and that does not come to an end.</exception>
    public static Process Now(ProcessStartInfo start) => With(() => Process.Start(start)!);

    /// <summary>Starts a process that inherits what the caller makes inheritable before, and takes back behind.</summary>
    /// <exception cref="CommandFailure">Another one is being started, and that does not come to an end.</exception>
    public static T With<T>(Func<T> start)
    {
        TimeSpan left = s_patience;
        while (!s_one.TryEnter(left))       // behind as many as there are; but not behind one that stands
        {
            left = s_patience - TimeSpan.FromMilliseconds(Environment.TickCount64 - Volatile.Read(ref s_passedAt));
            if (left > TimeSpan.Zero)
            {
                continue;
            }
            throw new CommandFailure(ExitCode.Failure, $"Another process has been about to start for {s_patience.TotalSeconds:0} s, and no other can meanwhile: its program lies on a file system that stands still. Have that answer, or unmount it (umount -f).");
        }
        Volatile.Write(ref s_passedAt, Environment.TickCount64);
        try
        {
            Posix.TakeWaitingSignals();     // a thread of the runtime's that was there before (Posix.Execute) would pass its blocked ones on
            return start();
        }
        finally
        {
            Volatile.Write(ref s_passedAt, Environment.TickCount64);
            s_one.Exit();
        }
    }

    /// <summary>Has another program enter the folder, and become this one: the start is over before either is touched. Where there is no such program all is as it was.</summary>
    /// <remarks>No shell, which drops variables whose name is no word of its language: Logging__LogLevel__Microsoft.AspNetCore.</remarks>
    /// <returns>Whether what is wrong with the program shows as the exit code 127, where it is not there, or 126.</returns>
    public static bool Defer(ProcessStartInfo start)
    {
        bool isHere = start.WorkingDirectory is "" or "/";
        string[]? words = start.FileName.Contains('=', StringComparison.Ordinal)
            ? isHere && File.Exists(Nice) ? [Nice, "-n", "0", "--"] : null      // to the other it would be a variable
            : isHere ? File.Exists(Env) ? [Env] : null
            : s_entersFolders.Value ? [Env, "-C", start.WorkingDirectory] : null;
        if (words is null)
        {
            return false;
        }
        string[] arguments = [.. words[1..], start.FileName, .. start.ArgumentList];
        start.ArgumentList.Clear();
        Array.ForEach(arguments, start.ArgumentList.Add);
        (start.FileName, start.WorkingDirectory) = (words[0], "/");
        return true;
    }

    /// <summary>
    /// Has the process that is started become that user. Another program does, where it can (<see cref="Prepare"/>), and becomes this one: the start is over before. Between fork and exec a child that is
    /// the user's already can be stopped by any of his processes, and then nobody can start anything any more.
    /// </summary>
    /// <param name="start">As it is to be started, with its environment; behind <see cref="Defer"/>.</param>
    /// <param name="user">Who it is to be.</param>
    /// <returns>Whether what is wrong with the program shows as the exit code 127, where it is not there, or 126.</returns>
    public static bool BecomeUser(ProcessStartInfo start, OtherUser user)
    {
        if (!s_becomesUsers || start.Environment.Any(static variable => IsHeededByPrograms(variable.Key) && Environment.GetEnvironmentVariable(variable.Key) != variable.Value))
        {
            start.UserName = user.Name;
            return false;
        }
        var rights = user.Rights;
        string groups = rights.Groups.Length == 0 ? "--clear-groups" : "--groups=" + string.Join(',', rights.Groups);
        string[] arguments = [string.Create(CultureInfo.InvariantCulture, $"--reuid={rights.User}"), string.Create(CultureInfo.InvariantCulture, $"--regid={rights.Group}"), groups, "--", start.FileName, .. start.ArgumentList];
        start.ArgumentList.Clear();
        Array.ForEach(arguments, start.ArgumentList.Add);
        start.FileName = SetPriv;
        return true;
    }

    /// <summary>
    /// Has the process that is started lead a session of its own from its first instruction on: a signal to its own process group is nobody else's then, nor is the terminal of this one its own. Another program
    /// sees to it, where there is one (<see cref="Prepare"/>), and becomes this one.
    /// </summary>
    /// <param name="start">As it is to be started; behind <see cref="BecomeUser"/>, whose program runs in that session then.</param>
    /// <returns>Whether what is wrong with the program shows as the exit code 127, where it is not there, or 126.</returns>
    public static bool LeaveSession(ProcessStartInfo start)
    {
        if (!s_leavesSessions)
        {
            return false;
        }
        start.ArgumentList.Insert(0, start.FileName);
        start.FileName = SetSid;
        return true;
    }

    /// <summary>
    /// Looks, once and before anything is started, whether there is a program by which others become other users (that of util-linux does, that of BusyBox does not), and one by which they leave this process's
    /// session. A process that never calls this has what it starts in its own session, as a shell has.
    /// </summary>
    public static void Prepare()
    {
        try
        {
            s_leavesSessions = Runs(SetSid, Env, "true");
            s_becomesUsers = SystemCalls.GetEffectiveUser() == 0 && Runs(SetPriv, $"--reuid={AnyUser}", $"--regid={AnyUser}", "--clear-groups", "--", Env, "true");
        }
        catch (CommandFailure)
        {
            // It stays unknown, and that is no.
        }
    }

    // The program that becomes the user is root's until then, and so is what the C library does for it: a library, a table or a text of the application's would be root's as well (ld.so(8), "secure-execution mode").
    private static bool IsHeededByPrograms(string name) =>
        name.StartsWith("LD_", StringComparison.Ordinal) || name.StartsWith("LC_", StringComparison.Ordinal) || name.StartsWith("LANG", StringComparison.Ordinal) || name.StartsWith("MALLOC_", StringComparison.Ordinal)
        || name.StartsWith("GLIBC_", StringComparison.Ordinal)
        || name is "GCONV_PATH" or "GETCONF_DIR" or "HOSTALIASES" or "LOCALDOMAIN" or "LOCPATH" or "NIS_PATH" or "NLSPATH" or "OUTPUT_CHARSET" or "RESOLV_HOST_CONF" or "RES_OPTIONS" or "TEXTDOMAIN" or "TEXTDOMAINDIR" or "TZDIR";

    // GNU's does since 8.28; that of BusyBox does not.
    private static bool EntersFolders() => Runs(Env, "-C", "/", "true");

    private static bool Runs(string program, params string[] arguments)
    {
        try
        {
            using var probe = Now(new ProcessStartInfo(program, arguments) { WorkingDirectory = "/", RedirectStandardError = true });
            return probe.WaitForExit(s_patience) && probe.ExitCode == 0;
        }
        catch (System.ComponentModel.Win32Exception)
        {
            return false;
        }
    }
}
