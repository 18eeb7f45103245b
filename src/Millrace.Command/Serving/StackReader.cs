// Has a process of its own read the stacks of an application, as the application's user: a dump, and the library that understands it, are the application's, and
// what goes wrong in reading them concerns nobody else.

using System.Diagnostics;
using System.Globalization;
using Millrace.Command.Running;
using Millrace.Command.Stacks;

namespace Millrace.Command.Serving;

internal static class StackReader
{
    /// <summary>The verb that does it.</summary>
    public const string Verb = "stacks";

    /// <summary>After this the process is left alone, whatever it has said.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(8);

    private static readonly TimeSpan s_killPatience = Patience + TimeSpan.FromSeconds(2);

    /// <param name="process">The application's.</param>
    /// <param name="settings">Those of the application.</param>
    /// <returns>Lines for people; one that says why, where there are none.</returns>
    public static async Task<IReadOnlyList<string>> ReadAsync(int process, AppSettings settings)
    {
        string its = string.Create(CultureInfo.InvariantCulture, $"process {process}");
        using var limit = new CancellationTokenSource(s_killPatience);
        try
        {
            using var reader = ProcessStart.Now(Describe(process, settings));
            try
            {
                reader.StandardInput.Close();
                using var errors = reader.StandardError;
                using var output = reader.StandardOutput;
                var complaint = LinesAsync(errors, max: 1, limit.Token);
                var lines = await LinesAsync(output, StackText.LinesMax, limit.Token);
                await reader.WaitForExitAsync(limit.Token);
                return reader.ExitCode == 0 ? [$"what the threads of {its} do:", .. lines] : await complaint;
            }
            finally
            {
                reader.Kill();      // to look for what it may have started is to read the memory of every process, which may never answer
            }
        }
        catch (Exception error) when (error is System.ComponentModel.Win32Exception or IOException or CommandFailure or InvalidOperationException)
        {
            return [$"what the threads of {its} do cannot be read: {error.Message}"];
        }
        catch (OperationCanceledException)
        {
            return [$"what the threads of {its} do cannot be read: its runtime does not answer."];
        }
    }

    private static ProcessStartInfo Describe(int process, AppSettings settings)
    {
        var command = AppTarget.FindApp(Path.Combine(AppContext.BaseDirectory, typeof(StackReader).Assembly.GetName().Name + ".dll"));
        var start = new ProcessStartInfo(command.Executable ?? DotNet.Path)
        {
            WorkingDirectory = "/",
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        if (command.Executable is null)
        {
            start.ArgumentList.Add(command.Assembly);
        }
        start.ArgumentList.Add(Verb);
        start.ArgumentList.Add(process.ToString(CultureInfo.InvariantCulture));
        if (OtherUser.Find(settings.User) is { } other)
        {
            other.Describe(start.Environment);
            _ = ProcessStart.BecomeUser(start, other);
        }
        _ = ProcessStart.LeaveSession(start);
        if (settings.Environment.TryGetValue("TMPDIR", out string? folder))
        {
            start.Environment["TMPDIR"] = folder;       // where its runtime listens
        }
        start.Environment["DOTNET_EnableDiagnostics"] = "0";
        return start;
    }

    private static async Task<List<string>> LinesAsync(TextReader from, int max, CancellationToken ct)
    {
        var reader = new LineReader(from, AppOutput.LineMax);
        List<string> lines = [];
        while (await reader.ReadAsync(ct) is { } line)
        {
            if (lines.Count < max)
            {
                lines.Add(line);
            }
        }
        return lines;
    }
}
