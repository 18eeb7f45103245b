// A site of PHP scripts, and a program, an application and an nginx that serve it: what runs behind the one must run behind the other.
using System.Collections.Concurrent;
using System.Globalization;
using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Millrace.Connector;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class PhpSite : IAsyncLifetime
{
    private readonly TemporaryDirectory _directory = new("php");
    private PhpProgram? _fpm;
    private PhpProgram? _cgi;
    private FrontEndProcess? _nginx;

    public string Root => Path.Combine(_directory.Path, "www");

    public string Private => Path.Combine(_directory.Path, "private");

    public IPEndPoint Nginx { get; private set; } = null!;

    public string AddressOf(PhpKind kind) => (kind == PhpKind.Fpm ? _fpm! : _cgi!).Address;

    public async ValueTask InitializeAsync()
    {
        WriteFiles();
        _fpm = await PhpProgram.StartAsync(PhpKind.Fpm, _directory.Path);
        _cgi = await PhpProgram.StartAsync(PhpKind.Cgi, _directory.Path);
        Nginx = FreeEndPoint();
        await File.WriteAllTextAsync(Path.Combine(_directory.Path, "nginx.conf"), NginxConfiguration());
        _nginx = await FrontEndProcess.StartAsync(
            FrontEndProcess.Find("nginx", ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]),
            ["-p", _directory.Path, "-e", Path.Combine(_directory.Path, "error.log"), "-c", Path.Combine(_directory.Path, "nginx.conf")],
            Nginx);
    }

    public async ValueTask DisposeAsync()
    {
        foreach (IAsyncDisposable? one in (IAsyncDisposable?[])[_nginx, _cgi, _fpm])
        {
            if (one is not null)
            {
                await one.DisposeAsync();
            }
        }
        _directory.Dispose();
    }

    /// <summary>An application that maps the site at a path.</summary>
    public Task<PhpApp> StartAppAsync(PhpKind kind, bool onMillrace = false, string pattern = "/{**path}", Action<FastCgiProgramOptions>? configure = null, Action<WebApplicationBuilder>? build = null, Action<WebApplication>? before = null) =>
        PhpApp.StartAsync(
            kind == PhpKind.Pool ? null : AddressOf(kind),
            onMillrace,
            pattern,
            options =>
            {
                options.Root = Root;
                configure?.Invoke(options);
            },
            build: build,
            before: before);

    public static async Task<WireResponse> AskAsync(IPEndPoint endPoint, string method, string target, byte[]? body = null, params string[] headers)
    {
        using WireClient client = await WireClient.ConnectAsync(endPoint);
        return await client.SendAsync(method, target, body, ["Host: site.example", "Connection: close", .. headers]);
    }

    internal static IPEndPoint FreeEndPoint()
    {
        using var probe = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.InterNetwork, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Tcp);
        probe.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        return (IPEndPoint)probe.LocalEndPoint!;
    }

    private void WriteFiles()
    {
        Directory.CreateDirectory(Path.Combine(Root, "sub"));
        Directory.CreateDirectory(Path.Combine(Root, "empty"));
        Directory.CreateDirectory(Path.Combine(Root, "upload"));
        Directory.CreateDirectory(Path.Combine(Root, ".git"));
        Directory.CreateDirectory(Private);
        void Write(string name, string text) => File.WriteAllText(Path.Combine(Root, name), text);
        Write("index.php", "<?php header('Content-Type: text/plain'); echo 'index ', $_SERVER['REQUEST_URI'];");
        Write("sub/index.php", "<?php header('Content-Type: text/plain'); echo 'sub ', $_SERVER['SCRIPT_NAME'];");
        Write("vars.php", "<?php header('Content-Type: application/json'); echo json_encode($_SERVER, JSON_PARTIAL_OUTPUT_ON_ERROR);");
        Write("echo.php", "<?php header('Content-Type: application/octet-stream'); header('X-Length: ' . strlen($b = file_get_contents('php://input'))); echo $b;");
        Write("form.php", "<?php header('Content-Type: application/json'); echo json_encode(['post' => $_POST, 'get' => $_GET, 'cookie' => $_COOKIE, 'files' => array_map(fn($f) => [$f['name'], $f['size'], hash_file('sha256', $f['tmp_name'])], $_FILES)]);");
        Write("head.php", "<?php header('X-Many: a', false); header('X-Many: b', false); setcookie('one', '1'); setcookie('two', '2'); header('Cache-Control: no-store'); header('Connection: close'); header('Keep-Alive: 5'); echo 'head';");
        Write("status.php", "<?php http_response_code((int)$_GET['code']); if ($_GET['code'] != 204 && $_GET['code'] != 304) echo 'status';");
        Write("redirect.php", "<?php header('Location: /elsewhere?x=1');");
        Write("error.php", "<?php throw new Exception('secret of the site');");
        Write("warn.php", "<?php error_log(\"forged\\n[2020] info: all is well\"); echo 'warned';");
        Write("long.php", "<?php header('Content-Type: text/plain'); for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(97 + $i % 26), 1000);");
        Write("length.php", "<?php header('Content-Type: text/plain'); header('Content-Length: ' . $_GET['n']); while (ob_get_level()) ob_end_flush(); echo str_repeat('a', (int)$_GET['n'] - 1), 'z';");
        Write("cl.php", "<?php header('Content-Type: text/plain'); header('Content-Length: ' . $_GET['n']); while (ob_get_level()) ob_end_flush(); echo str_repeat('a', (int)$_GET['m']);");
        Write("bytes.php", "<?php header('Content-Type: text/plain'); header(\"Content-Disposition: attachment; filename=\\\"\\xC3\\xA4.pdf\\\"\"); header(\"X-Bytes: \\x80\\xFF\"); header(\"X-Bytes: \\xE9\", false); header('X-Plain: yes'); echo 'bytes';");
        Write("slow.php", "<?php header('Content-Type: text/plain'); while (ob_get_level()) ob_end_flush(); echo 'first'; flush(); sleep(60); echo 'second';");
        Write("accel.php", "<?php header('X-Accel-Redirect: ' . $_GET['to']); header('Content-Type: text/csv'); header('X-Kept: yes'); echo 'never seen';");
        Write("sendfile.php", "<?php header('X-Sendfile: ' . $_GET['to']); echo 'never seen';");
        Write("style.css", "body { color: red }");
        Write("readme.unknown", "of no known type");
        Write("paper.odt", "a paper");
        Write(".env", "secret");
        Write(".git/config.txt", "secret");
        Write("upload/a.jpg", "<?php echo 'uploaded code runs';");
        Write("upload/b.php.jpg", "<?php echo 'uploaded code runs';");
        Write("upload/c.PHP", "<?php echo 'uploaded code runs';");
        Write("upload/d.phtml", "<?php echo 'uploaded code runs';");
        File.WriteAllText(Path.Combine(Private, "outside.php"), "<?php echo 'outside runs';");
        File.WriteAllText(Path.Combine(Private, "report.csv"), "a;b\n1;2\n");
        File.WriteAllText(Path.Combine(Private, "b\u00E4r.csv"), "b\u00E4r");
        File.WriteAllText(Path.Combine(_directory.Path, "secret.csv"), "secret");
        File.CreateSymbolicLink(Path.Combine(Root, "link.php"), Path.Combine(Private, "outside.php"));
        File.CreateSymbolicLink(Path.Combine(Root, "inside.php"), Path.Combine(Root, "sub/index.php"));
        Directory.CreateDirectory(Path.Combine(Root, "sub/deep"));
        File.CreateSymbolicLink(Path.Combine(Root, "linked.css"), "style.css");
        File.CreateSymbolicLink(Path.Combine(Root, "sub/deep/linked.css"), "../../style.css");
        Directory.CreateSymbolicLink(Path.Combine(Root, "linked"), "sub/deep");
        File.CreateSymbolicLink(Path.Combine(Private, "link.csv"), Path.Combine(_directory.Path, "secret.csv"));
    }

    private string NginxConfiguration() => string.Create(CultureInfo.InvariantCulture, $$"""
        {{(Environment.IsPrivilegedProcess ? "user root;" : "")}}
        daemon off;
        worker_processes 1;
        pid {{_directory.Path}}/nginx.pid;
        events { worker_connections 100; }
        http {
            client_body_temp_path {{_directory.Path}}/body;
            fastcgi_temp_path {{_directory.Path}}/fastcgi;
            proxy_temp_path {{_directory.Path}}/proxy;
            uwsgi_temp_path {{_directory.Path}}/uwsgi;
            scgi_temp_path {{_directory.Path}}/scgi;
            access_log off;
            client_max_body_size 100m;
            types { text/css css; }
            default_type application/octet-stream;
            server {
                listen {{Nginx}};
                server_name site.example;
                root {{Root}};
                index index.php;
                location / { try_files $uri $uri/ /index.php$is_args$args; }
                location ~ [^/]\.php(/|$) {
                    fastcgi_split_path_info ^(.+?\.php)(/.*)$;
                    if (!-f $document_root$fastcgi_script_name) { return 404; }
                    set $info $fastcgi_path_info;
                    include /etc/nginx/fastcgi_params;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_param PATH_INFO $info;
                    fastcgi_pass unix:{{_fpm!.Socket}};
                }
            }
        }
        """);
}

/// <summary>An application whose endpoint is a FastCGI program, and what it says.</summary>
public sealed class PhpApp : IAsyncDisposable
{
    private readonly WebApplication _app;
    private readonly ProcessPool? _pool;

    private PhpApp(WebApplication app, ProcessPool? pool, IPEndPoint endPoint, Lines said)
    {
        _app = app;
        _pool = pool;
        EndPoint = endPoint;
        Said = said;
    }

    public IPEndPoint EndPoint { get; }

    /// <summary>Of php-cgi processes, where it has one.</summary>
    internal ProcessPool Pool => _pool!;

    public Lines Said { get; }

    /// <param name="address">Where PHP listens; null: in a pool of its own.</param>
    /// <param name="onMillrace">Not on Kestrel.</param>
    /// <param name="pattern">Where the site is.</param>
    /// <param name="configure">Sets options.</param>
    /// <param name="processes">Of the pool.</param>
    /// <param name="build">Adds services, and sets the server's options.</param>
    /// <param name="before">Adds middleware.</param>
    public static async Task<PhpApp> StartAsync(
        string? address, bool onMillrace, string pattern, Action<FastCgiProgramOptions> configure, ProcessPoolOptions? processes = null, Action<WebApplicationBuilder>? build = null, Action<WebApplication>? before = null)
    {
        var said = new Lines();
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders().AddProvider(said);
        IPEndPoint endPoint = PhpSite.FreeEndPoint();
        builder.WebHost.UseUrls($"http://{endPoint}");
        if (onMillrace)
        {
            builder.WebHost.UseMillrace();
        }
        build?.Invoke(builder);
        WebApplication app = builder.Build();
        before?.Invoke(app);
        ProcessPool? pool = null;
        if (address is null)
        {
            pool = new ProcessPool(processes ?? new ProcessPoolOptions { Command = "php-cgi", Arguments = { "-d", "expose_php=1" }, Min = 2, Max = 4 }, app.Services.GetRequiredService<ILoggerFactory>());
            await pool.WaitUntilReadyAsync();
            app.MapFastCgi(pattern, pool, configure);
        }
        else
        {
            app.MapFastCgi(pattern, address, configure);
        }
        await app.StartAsync();
        return new PhpApp(app, pool, endPoint, said);
    }

    public async ValueTask DisposeAsync()
    {
        await _app.StopAsync();
        await _app.DisposeAsync();
        if (_pool is not null)
        {
            await _pool.DisposeAsync();
        }
    }

    public sealed class Lines : ILoggerProvider, ILogger
    {
        private readonly ConcurrentQueue<string> _lines = new();

        public IReadOnlyList<string> All => [.. _lines];

        /// <summary>All since the last time, which are forgotten.</summary>
        public IReadOnlyList<string> TakeAll()
        {
            var taken = new List<string>();
            while (_lines.TryDequeue(out string? line))
            {
                taken.Add(line);
            }

            return taken;
        }

        public ILogger CreateLogger(string categoryName) => categoryName is "Millrace.Connector" or "Millrace.Workers" ? this : Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            _lines.Enqueue($"{eventId.Id} {formatter(state, exception)}");

        public bool IsEnabled(LogLevel logLevel) => true;

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public void Dispose()
        {
        }
    }
}
