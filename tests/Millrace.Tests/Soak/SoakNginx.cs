// A real nginx before the server of the soak, one place for each protocol, that can be told to read its configuration
// again. It has a folder and a process id of its own; the system's service is left alone.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

internal sealed class SoakNginx : IDisposable
{
    private const string Configuration = """
        @USER@
        daemon off;
        worker_processes 1;
        worker_shutdown_timeout 30s;
        pid @DIR@/nginx.pid;
        error_log @DIR@/error.log crit;
        events { worker_connections 2048; }
        http {
            access_log off;
            client_body_temp_path @DIR@/body;
            fastcgi_temp_path @DIR@/fastcgi;
            proxy_temp_path @DIR@/proxy;
            scgi_temp_path @DIR@/scgi;
            uwsgi_temp_path @DIR@/uwsgi;
            client_max_body_size 64m;
            keepalive_requests 1000000;
            upstream fastcgi_app { server @FASTCGI@ max_fails=0; keepalive 16; }
            upstream http_app { server @HTTP@ max_fails=0; keepalive 16; }
            server {
                listen 127.0.0.1:@PORT1@;
                location / {
                    fastcgi_pass fastcgi_app;
                    fastcgi_keep_conn on;
                    fastcgi_param REQUEST_METHOD $request_method;
                    fastcgi_param REQUEST_URI $request_uri;
                    fastcgi_param SERVER_PROTOCOL $server_protocol;
                    fastcgi_param REMOTE_ADDR $remote_addr;
                    fastcgi_param CONTENT_LENGTH $content_length;
                }
            }
            server {
                listen 127.0.0.1:@PORT2@;
                location / {
                    proxy_pass http://http_app;
                    proxy_http_version 1.1;
                    proxy_set_header Connection "";
                    proxy_request_buffering off;
                }
            }
        }
        """;

    private readonly SocketFolder _folder = new();
    private readonly Process _process;
    private bool _isDisposed;

    public SoakNginx(SoakServer server)
    {
        (FastCgi, Http) = FreePlaces();
        string path = _folder.PathOf("nginx.conf");
        File.WriteAllText(path, Configuration
            .Replace("@USER@", Environment.IsPrivilegedProcess ? "user root;" : "", StringComparison.Ordinal)
            .Replace("@DIR@", _folder.PathOf("").TrimEnd('/'), StringComparison.Ordinal)
            .Replace("@FASTCGI@", server.FastCgi["fastcgi://".Length..].Split('?')[0], StringComparison.Ordinal)
            .Replace("@HTTP@", server.Http.ToString(), StringComparison.Ordinal)
            .Replace("@PORT1@", FastCgi.Port.ToString(CultureInfo.InvariantCulture), StringComparison.Ordinal)
            .Replace("@PORT2@", Http.Port.ToString(CultureInfo.InvariantCulture), StringComparison.Ordinal));
        _process = Start("-c", path);
        if (!ProcessState.Becomes(IsListening))
        {
            Dispose();
            throw new IOException("nginx does not listen.");
        }
    }

    /// <summary>Where it passes requests on over FastCGI.</summary>
    public IPEndPoint FastCgi { get; }

    /// <summary>Where it passes requests on over HTTP.</summary>
    public IPEndPoint Http { get; }

    /// <summary>Sends SIGHUP: new workers, and the old ones finish what they have.</summary>
    public void Reload()
    {
        using Process signal = Start("-s", "reload", "-c", _folder.PathOf("nginx.conf"));
        signal.WaitForExit();
        Assert.Equal(0, signal.ExitCode);
    }

    public void Dispose()
    {
        if (_isDisposed)
        {
            return;
        }

        _isDisposed = true;
        if (!_process.HasExited)
        {
            using Process signal = Start("-s", "stop", "-c", _folder.PathOf("nginx.conf"));
            signal.WaitForExit();
            if (!_process.WaitForExit(10_000))
            {
                _process.Kill(entireProcessTree: true);
            }
        }

        _process.Dispose();
        _folder.Dispose();
    }

    // With streams of its own: what the runner of the tests reads from this process is not for others to write to.
    private Process Start(params string[] arguments) => Process.Start(
        new ProcessStartInfo("nginx", ["-p", _folder.PathOf(""), "-e", _folder.PathOf("error.log"), .. arguments])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        })!;

    private bool IsListening()
    {
        try
        {
            SoakConnection.Connect(FastCgi).Dispose();
            SoakConnection.Connect(Http).Dispose();
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    private static (IPEndPoint First, IPEndPoint Second) FreePlaces()
    {
        using var first = new TcpListener(IPAddress.Loopback, 0);
        using var second = new TcpListener(IPAddress.Loopback, 0);
        first.Start();
        second.Start();
        return ((IPEndPoint)first.LocalEndpoint, (IPEndPoint)second.LocalEndpoint);
    }
}
