// The process of a front end: started in the foreground in a directory of its own, ended by its process id only.
// Not here: configuration, which is each front end's own.
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
    private readonly Task<string> _standardError;

    private FrontEndProcess(Process process)
    {
        _process = process;
        _standardError = process.StandardError.ReadToEndAsync();
    }

    /// <summary>The program's full path, or a failure that says how to install it.</summary>
    public static string Find(string package, params ReadOnlySpan<string> places)
    {
        foreach (string place in places)
        {
            if (File.Exists(place))
            {
                return place;
            }
        }

        throw new FileNotFoundException($"The end-to-end tests need a real {package}: run `apt-get install {package}`.");
    }

    /// <summary>Starts the program and waits until it accepts connections on each of <paramref name="endPoints"/>.</summary>
    /// <exception cref="IOException">It ended or did not listen in time; the message carries what it said.</exception>
    public static async Task<FrontEndProcess> StartAsync(string program, IReadOnlyList<string> arguments, params IPEndPoint[] endPoints)
    {
        var start = new ProcessStartInfo(program, arguments) { RedirectStandardError = true };
        Process process = Process.Start(start) ?? throw new IOException($"{program} did not start.");
        var running = new FrontEndProcess(process);
        foreach (IPEndPoint endPoint in endPoints)
        {
            await running.WaitUntilListeningAsync(endPoint);
        }

        return running;
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

    private async Task WaitUntilListeningAsync(IPEndPoint endPoint)
    {
        long started = Stopwatch.GetTimestamp();
        while (true)
        {
            if (_process.HasExited)
            {
                throw new IOException($"{_process.StartInfo.FileName} ended with {_process.ExitCode}: {await _standardError}");
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
        }
    }

    [LibraryImport("libc", EntryPoint = "kill", SetLastError = true)]
    private static partial int SendSignal(int processId, int signal);
}
