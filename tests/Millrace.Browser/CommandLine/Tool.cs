// Runs a client of the command line to its end and keeps what it printed.

using System.Diagnostics;
using System.Text;

namespace Millrace.Browser.CommandLine;

internal sealed record Tool(int ExitCode, byte[] Output, string Errors)
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    public string Text => Encoding.UTF8.GetString(Output);

    /// <param name="package">The Debian package that has the program.</param>
    /// <exception cref="TimeoutException">It has not ended within 30 seconds; it is ended then.</exception>
    public static async Task<Tool> RunAsync(string name, string package, byte[] input, params IEnumerable<string> arguments)
    {
        var start = new ProcessStartInfo(Programs.Find(name, package), arguments)
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        start.Environment["LC_ALL"] = "C";
        using Process process = Process.Start(start)!;
        using var output = new MemoryStream();
        Task reading = process.StandardOutput.BaseStream.CopyToAsync(output);
        Task<string> errors = process.StandardError.ReadToEndAsync();
        try
        {
            await WriteAsync(process, input);
            await Task.WhenAll(reading, errors, process.WaitForExitAsync()).WaitAsync(s_patience);
        }
        catch (TimeoutException)
        {
            process.Kill(entireProcessTree: true);
            throw;
        }

        return new Tool(process.ExitCode, output.ToArray(), await errors);
    }

    // A client that has its answer need not read on.
    private static async Task WriteAsync(Process process, byte[] input)
    {
        try
        {
            await process.StandardInput.BaseStream.WriteAsync(input);
            process.StandardInput.Close();
        }
        catch (IOException)
        {
        }
    }
}
