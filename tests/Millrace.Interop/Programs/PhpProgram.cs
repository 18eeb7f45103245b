// PHP as a FastCGI program, over a Unix socket: php-fpm or php-cgi, started in the foreground and ended by its process id.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Programs;

public enum PhpKind
{
    Fpm,
    Cgi,

    /// <summary>php-cgi processes of a pool of the application's own.</summary>
    Pool,
}

internal sealed class PhpProgram : IAsyncDisposable
{
    private readonly FrontEndProcess _process;

    private PhpProgram(FrontEndProcess process, string socket)
    {
        _process = process;
        Socket = socket;
    }

    public string Socket { get; }

    public string Address => "unix:" + Socket;

    public static async Task<PhpProgram> StartAsync(PhpKind kind, string directory)
    {
        string socket = Path.Combine(directory, kind == PhpKind.Fpm ? "fpm.sock" : "cgi.sock");
        FrontEndProcess process = kind == PhpKind.Fpm ? await StartFpmAsync(directory, socket) : await StartCgiAsync(socket);
        var watch = Stopwatch.StartNew();
        while (!await AcceptsAsync(socket))
        {
            if (watch.Elapsed > TimeSpan.FromSeconds(30))
            {
                string said = string.Join('\n', process.ErrorLines);
                await process.DisposeAsync();
                throw new IOException($"PHP does not listen on {socket}: {said}");
            }
            await Task.Delay(10);
        }
        return new PhpProgram(process, socket);
    }

    public ValueTask DisposeAsync() => _process.DisposeAsync();

    private static Task<FrontEndProcess> StartFpmAsync(string directory, string socket)
    {
        string program = FrontEndProcess.Find("php-fpm", ["/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm8.4", "/usr/sbin/php-fpm"]);
        string configuration = Path.Combine(directory, "fpm.conf");
        File.WriteAllText(configuration, string.Create(CultureInfo.InvariantCulture, $"""
            [global]
            error_log = {directory}/fpm.log
            daemonize = no
            [www]
            {(Environment.IsPrivilegedProcess ? "user = root\ngroup = root" : "")}
            listen = {socket}
            pm = static
            pm.max_children = 4
            catch_workers_output = yes
            """));
        string[] asRoot = Environment.IsPrivilegedProcess ? ["-R"] : [];
        return FrontEndProcess.StartAsync(program, ["-n", "-F", .. asRoot, "-y", configuration]);
    }

    private static Task<FrontEndProcess> StartCgiAsync(string socket)
    {
        var start = new ProcessStartInfo(FrontEndProcess.Find("php-cgi", ["/usr/bin/php-cgi", "/usr/bin/php-cgi8.2"]), ["-n", "-b", socket]);
        start.Environment["PHP_FCGI_CHILDREN"] = "4";
        return FrontEndProcess.StartAsync(start);
    }

    private static async Task<bool> AcceptsAsync(string path)
    {
        using var probe = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            await probe.ConnectAsync(new UnixDomainSocketEndPoint(path));
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }
}
