// Runs the model checker: spin makes a C program of a model, gcc compiles it, and it visits every state.

using System.ComponentModel;
using System.Diagnostics;
using Millrace.Tests.Stress;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Models;

internal static class Spin
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(2);

    /// <summary>Checks a model and gives the checker's report.</summary>
    /// <param name="model">Path from the root of the repository.</param>
    /// <param name="isQuick">An error is expected soon: compile fast rather than run fast.</param>
    /// <param name="definitions">For the preprocessor.</param>
    /// <exception cref="InvalidOperationException">The model could not be checked to its end.</exception>
    public static async Task<string> CheckAsync(string model, bool isQuick, string[] definitions)
    {
        using var folder = new SocketFolder();
        string path = folder.PathOf("");
        await RunAsync("spin", path, [.. definitions.Select(static definition => "-D" + definition), "-a", Path.Combine(Repository.Root, model)]);
        await RunAsync("gcc", path, [isQuick ? "-O0" : "-O2", "-w", "-DSAFETY", "-DNOCLAIM", "-DCOLLAPSE", "-DMEMLIM=1500", "-o", "pan", "pan.c"]);
        string report = await RunAsync(Path.Combine(path, "pan"), path, ["-E", "-m100000"]);
        return report.Contains("Search not completed", StringComparison.Ordinal) && !report.Contains("assertion violated", StringComparison.Ordinal)
            ? throw new InvalidOperationException($"{model} was not checked to its end: {report}")
            : report;
    }

    private static async Task<string> RunAsync(string program, string folder, string[] arguments)
    {
        using Process process = Start(new ProcessStartInfo(program, arguments) { WorkingDirectory = folder, RedirectStandardOutput = true, RedirectStandardError = true });
        Task<string> output = process.StandardOutput.ReadToEndAsync();
        Task<string> errors = process.StandardError.ReadToEndAsync();
        try
        {
            await process.WaitForExitAsync().WaitAsync(s_patience);
        }
        catch (TimeoutException)
        {
            process.Kill();
            throw;
        }

        string said = await output + await errors;
        return process.ExitCode == 0 ? said : throw new InvalidOperationException($"{program} {string.Join(' ', arguments)} ended with {process.ExitCode}: {said}");
    }

    private static Process Start(ProcessStartInfo start)
    {
        try
        {
            return Process.Start(start)!;
        }
        catch (Win32Exception)
        {
            throw new InvalidOperationException($"The models need {start.FileName}: run `apt-get install spin build-essential`.");
        }
    }
}
