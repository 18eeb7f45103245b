// Kills the children of a pool when this process has been killed and could not do so itself: a shell that waits for the end of a pipe, and knows their numbers. It knows a child from before it
// has begun to work until it has been taken away, so no other process can have its number.

using System.Diagnostics;
using System.Globalization;

namespace Millrace.Workers.Processes;

internal sealed class Guardian : IDisposable
{
    // Each line is + or - and a number of a process, or / and the number of a descriptor and the path of another folder. What has been killed at the end is what has not been taken away. A folder is entered
    // by its descriptor, since its path may lead elsewhere by then, unless this process is hidden.
    private const string Script = """
        trap '' HUP INT TERM QUIT
        children=' '
        while read -r what child folder; do
            case $what in
                +) children="$children$child " ;;
                -) children="${children%% $child *} ${children#* $child }" ;;
                /) { cd -P "/proc/$PPID/fd/$child" || cd -P -- "$folder"; } && set -- "$folder" ;;
            esac
        done
        for child in $children; do kill -9 "$child"; done
        rm -f ./*
        cd / && rmdir -- "$1"
        """;

    private readonly Lock _lock = new();
    private readonly Process _shell;

    /// <param name="folder">Is emptied, and removed, at the end.</param>
    /// <exception cref="IOException">There is no shell.</exception>
    public Guardian(string folder)
    {
        var start = new ProcessStartInfo("/bin/sh") { RedirectStandardInput = true, RedirectStandardOutput = true, RedirectStandardError = true, WorkingDirectory = folder };
        start.ArgumentList.Add("-c");
        start.ArgumentList.Add(Script);
        start.ArgumentList.Add("millrace-guardian");
        start.ArgumentList.Add(folder);
        try
        {
            _shell = Process.Start(start)!;
        }
        catch (System.ComponentModel.Win32Exception error)
        {
            throw new IOException($"The shell that watches over the processes of a pool cannot be started: {error.Message}", error);
        }
    }

    public void Add(int child) => Tell('+', child);

    public void Remove(int child) => Tell('-', child);

    /// <summary>From now on that is the folder to be emptied and removed.</summary>
    /// <param name="descriptor">Under which it is open here.</param>
    /// <param name="folder">Its path.</param>
    public void MoveTo(int descriptor, string folder) => Tell('/', descriptor, " " + folder);

    // A shell that has been killed guards nothing; the pool goes on without.
    private void Tell(char what, int number, string more = "")
    {
        lock (_lock)
        {
            try
            {
                _shell.StandardInput.Write(string.Create(CultureInfo.InvariantCulture, $"{what} {number}{more}\n"));
                _shell.StandardInput.Flush();
            }
            catch (Exception error) when (error is IOException or ObjectDisposedException)
            {
                // See above.
            }
        }
    }

    /// <summary>All children have been taken away.</summary>
    public void Dispose()
    {
        lock (_lock)
        {
            try
            {
                _shell.StandardInput.Dispose();
            }
            catch (IOException)
            {
                // It has gone.
            }
        }
        _ = _shell.WaitForExit(TimeSpan.FromSeconds(5));
        _shell.Dispose();
    }
}
