// A real nginx with a configuration, a process id and temporary paths of its own. Not the system's service, which is
// left alone. The configuration is FrontEnds/nginx/fastcgi.conf or http.conf with the words between @ signs filled in.
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.FrontEnds;

public sealed class NginxServer : IFrontEnd
{
    private const int StartAttemptsMax = 5;

    private readonly FrontEndProcess _process;
    private readonly TemporaryDirectory _directory;

    private NginxServer(FrontEndProcess process, TemporaryDirectory directory, int bufferedPort, int streamingPort)
    {
        _process = process;
        _directory = directory;
        Buffered = new IPEndPoint(IPAddress.Loopback, bufferedPort);
        Streaming = new IPEndPoint(IPAddress.Loopback, streamingPort);
    }

    public IPEndPoint Buffered { get; }

    public IPEndPoint Streaming { get; }

    /// <summary>Starts nginx in front of the given application and waits until it accepts connections.</summary>
    /// <param name="upstream">The application.</param>
    /// <param name="template">A file of FrontEnds/nginx; without it the one of the upstream's protocol.</param>
    public static async Task<NginxServer> StartAsync(Upstream upstream, string? template = null)
    {
        template ??= upstream.Combination.Protocol == AppProtocol.FastCgi ? "fastcgi.conf" : "http.conf";
        string program = FrontEndProcess.Find("nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx");
        for (int attempt = 1; ; attempt++)
        {
            // A free port is free only until somebody takes it: then try two others.
            try
            {
                return await StartOnFreePortsAsync(program, upstream, template);
            }
            catch (IOException failure) when (attempt < StartAttemptsMax
                && failure.Message.Contains("Address already in use", StringComparison.Ordinal))
            {
            }
        }
    }

    public IReadOnlyList<string> ErrorLog() => ReadErrorLog(_directory);

    public async ValueTask DisposeAsync()
    {
        await _process.DisposeAsync();
        _directory.Dispose();
    }

    private static async Task<NginxServer> StartOnFreePortsAsync(string program, Upstream upstream, string template)
    {
        var directory = new TemporaryDirectory("nginx");
        (int buffered, int streaming) = TwoFreePorts();
        string configuration = Path.Combine(directory.Path, "nginx.conf");
        await File.WriteAllTextAsync(configuration, Configure(upstream, template, directory.Path, buffered, streaming));

        try
        {
            FrontEndProcess process = await FrontEndProcess.StartAsync(
                program,
                ["-p", directory.Path, "-e", Path.Combine(directory.Path, "error.log"), "-c", configuration],
                new IPEndPoint(IPAddress.Loopback, buffered),
                new IPEndPoint(IPAddress.Loopback, streaming));
            return new NginxServer(process, directory, buffered, streaming);
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    private static string Configure(Upstream upstream, string template, string directory, int buffered, int streaming)
    {
        bool keptAlive = upstream.Combination.Connections == UpstreamConnections.KeptAlive;

        // max_fails=0: a server that refused one connection is asked again for the next request.
        IEnumerable<string> servers = upstream.Addresses.Select(static address => $"server {Upstream.HostPart(address)} max_fails=0;");
        return File.ReadAllText(Path.Combine(AppContext.BaseDirectory, "FrontEnds", "nginx", template))
            .Replace("@USER@", Environment.IsPrivilegedProcess ? "user root;" : "", StringComparison.Ordinal)
            .Replace("@DIR@", directory, StringComparison.Ordinal)
            .Replace("@SERVERS@", string.Join("\n        ", servers), StringComparison.Ordinal)
            .Replace("@KEEPALIVE@", keptAlive ? "keepalive 16; keepalive_requests 1000000;" : "", StringComparison.Ordinal)
            .Replace("@KEEP_CONN@", keptAlive ? "on" : "off", StringComparison.Ordinal)
            .Replace("@CONNECTION@", keptAlive ? "" : "close", StringComparison.Ordinal)
            .Replace("@BUFFERED_PORT@", buffered.ToString(CultureInfo.InvariantCulture), StringComparison.Ordinal)
            .Replace("@STREAMING_PORT@", streaming.ToString(CultureInfo.InvariantCulture), StringComparison.Ordinal);
    }

    private static string[] ReadErrorLog(TemporaryDirectory directory)
    {
        string path = Path.Combine(directory.Path, "error.log");
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
}
