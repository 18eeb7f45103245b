// A running front end: a real web server with a directory, a configuration and two free ports of its own. Not the system's
// service, which is left alone. What differs from one web server to the next is its FrontEndProgram's.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.RegularExpressions;

namespace Millrace.Interop.FrontEnds;

public sealed partial class FrontEndServer : IFrontEnd
{
    private const int StartAttemptsMax = 5;

    private readonly FrontEndProgram _program;
    private readonly FrontEndProcess _process;
    private readonly TemporaryDirectory _directory;

    private FrontEndServer(FrontEndProgram program, FrontEndProcess process, TemporaryDirectory directory, int bufferedPort, int streamingPort)
    {
        _program = program;
        _process = process;
        _directory = directory;
        Buffered = new IPEndPoint(IPAddress.Loopback, bufferedPort);
        Streaming = new IPEndPoint(IPAddress.Loopback, streamingPort);
    }

    public IPEndPoint Buffered { get; }

    public IPEndPoint Streaming { get; }

    /// <summary>Starts the web server in front of the given application and waits until it accepts connections.</summary>
    public static async Task<FrontEndServer> StartAsync(FrontEndProgram program, Upstream upstream)
    {
        string path = FrontEndProcess.Find(program.Package, program.Places);
        for (int attempt = 1; ; attempt++)
        {
            // A free port is free only until somebody takes it: then try two others.
            try
            {
                return await StartOnFreePortsAsync(program, path, upstream);
            }
            catch (IOException failure) when (attempt < StartAttemptsMax
                && failure.Message.Contains("address already in use", StringComparison.OrdinalIgnoreCase))
            {
            }
        }
    }

    public IReadOnlyList<string> ErrorLog() => [.. Log().Where(_program.IsError)];

    public async ValueTask DisposeAsync()
    {
        await _process.DisposeAsync();
        _directory.Dispose();
    }

    /// <summary>A template with its words filled in.</summary>
    /// <exception cref="InvalidDataException">A word of the template is not among <paramref name="words"/>.</exception>
    internal static string Configure(string template, IReadOnlyDictionary<string, string> words)
    {
        string text = File.ReadAllText(Path.Combine(AppContext.BaseDirectory, "FrontEnds", template));
        return Word().Replace(text, match => words.TryGetValue(match.Groups[1].Value, out string? value)
            ? value
            : throw new InvalidDataException($"{template} asks for {match.Value}, which nobody fills in."));
    }

    private static async Task<FrontEndServer> StartOnFreePortsAsync(FrontEndProgram program, string path, Upstream upstream)
    {
        string template = program.TemplateFor(upstream);
        var directory = new TemporaryDirectory("front");
        try
        {
            (int buffered, int streaming) = TwoFreePorts();
            var words = new Dictionary<string, string>
            {
                ["DIR"] = directory.Path,
                ["BUFFERED_PORT"] = buffered.ToString(CultureInfo.InvariantCulture),
                ["STREAMING_PORT"] = streaming.ToString(CultureInfo.InvariantCulture),
            };
            program.FillIn(words, upstream);
            string configuration = Path.Combine(directory.Path, Path.GetFileName(template));
            await File.WriteAllTextAsync(configuration, Configure(template, words));
            program.Prepare(directory.Path);

            var start = new ProcessStartInfo(path, program.Arguments(directory.Path, configuration)) { WorkingDirectory = directory.Path };
            foreach ((string name, string value) in program.Environment(directory.Path))
            {
                start.Environment[name] = value;
            }

            FrontEndProcess process = await FrontEndProcess.StartAsync(
                start, new IPEndPoint(IPAddress.Loopback, buffered), new IPEndPoint(IPAddress.Loopback, streaming));
            return new FrontEndServer(program, process, directory, buffered, streaming);
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    private IReadOnlyList<string> Log()
    {
        if (_program.LogFile is null)
        {
            return _process.ErrorLines;
        }

        string path = Path.Combine(_directory.Path, _program.LogFile);
        if (!File.Exists(path))
        {
            return [];
        }

        using var reader = new StreamReader(new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite));
        return reader.ReadToEnd().Split('\n', StringSplitOptions.RemoveEmptyEntries);
    }

    private static (int First, int Second) TwoFreePorts()
    {
        using var first = new TcpListener(IPAddress.Loopback, 0);
        using var second = new TcpListener(IPAddress.Loopback, 0);
        first.Start();
        second.Start();
        return (((IPEndPoint)first.LocalEndpoint).Port, ((IPEndPoint)second.LocalEndpoint).Port);
    }

    [GeneratedRegex("@([A-Z_]+)@")]
    private static partial Regex Word();
}
