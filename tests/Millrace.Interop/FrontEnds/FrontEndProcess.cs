// The process of a front end: started in the foreground, listened to, ended by its process id only.
// Not here: its directory and configuration (FrontEndServer.cs).
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Millrace.Interop.FrontEnds;

internal sealed partial class FrontEndProcess : IAsyncDisposable
{
    private const int SigTerm = 15;
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(10);

    private readonly Process _process;
    private readonly List<string> _errorLines = [];

    private FrontEndProcess(Process process)
    {
        _process = process;
        process.ErrorDataReceived += (_, received) => Note(received.Data);
        process.BeginErrorReadLine();
    }

    /// <summary>What it has written to its standard error so far.</summary>
    public IReadOnlyList<string> ErrorLines
    {
        get
        {
            lock (_errorLines)
            {
                return [.. _errorLines];
            }
        }
    }

    /// <summary>The program's full path, or a failure that says how to install it.</summary>
    public static string Find(string package, params IEnumerable<string> places) =>
        places.FirstOrDefault(File.Exists)
        ?? throw new FileNotFoundException($"The end-to-end tests need a real {package}: run `apt-get install {package}`.");

    /// <summary>Starts the program and waits until it accepts connections on each of <paramref name="endPoints"/>.</summary>
    /// <exception cref="IOException">It ended or did not listen in time; the message carries what it said.</exception>
    public static Task<FrontEndProcess> StartAsync(string program, IReadOnlyList<string> arguments, params IPEndPoint[] endPoints) =>
        StartAsync(new ProcessStartInfo(program, arguments), endPoints);

    /// <summary>The same for a program that needs an environment or a working directory.</summary>
    /// <exception cref="IOException">It ended or did not listen in time; the message carries what it said.</exception>
    public static async Task<FrontEndProcess> StartAsync(ProcessStartInfo start, params IPEndPoint[] endPoints)
    {
        start.RedirectStandardError = true;
        Process process = Process.Start(start) ?? throw new IOException($"{start.FileName} did not start.");
        var running = new FrontEndProcess(process);
        try
        {
            foreach (IPEndPoint endPoint in endPoints)
            {
                await running.WaitUntilListeningAsync(endPoint);
            }

            return running;
        }
        catch
        {
            await running.DisposeAsync();
            throw;
        }
    }

    public async ValueTask DisposeAsync()
    {
        if (!_process.HasExited)
        {
            _ = SendSignal(_process.Id, SigTerm);
            using var deadline = new CancellationTokenSource(Patience);
            try
            {
                await _process.WaitForExitAsync(deadline.Token);
            }
            catch (OperationCanceledException)
            {
                _process.Kill(entireProcessTree: true);
                await _process.WaitForExitAsync();
            }
        }

        _process.Dispose();
    }

    private void Note(string? line)
    {
        if (!string.IsNullOrEmpty(line))
        {
            lock (_errorLines)
            {
                _errorLines.Add(line);
            }
        }
    }

    private async Task WaitUntilListeningAsync(IPEndPoint endPoint)
    {
        long started = Stopwatch.GetTimestamp();
        while (true)
        {
            if (_process.HasExited)
            {
                // Waiting without a deadline also waits for the last of its standard error.
                await _process.WaitForExitAsync();
                throw new IOException($"{_process.StartInfo.FileName} ended with {_process.ExitCode}: {string.Join('\n', ErrorLines)}");
            }

            using var probe = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
            try
            {
                await probe.ConnectAsync(endPoint);
                return;
            }
            catch (SocketException) when (Stopwatch.GetElapsedTime(started) < Patience)
            {
                await Task.Delay(10);
            }
            catch (SocketException refused)
            {
                throw new IOException($"{_process.StartInfo.FileName} does not listen on {endPoint}: {string.Join('\n', ErrorLines)}", refused);
            }
        }
    }

    [LibraryImport("libc", EntryPoint = "kill", SetLastError = true)]
    private static partial int SendSignal(int processId, int signal);
}
