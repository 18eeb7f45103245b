// Pools of php-cgi in the file of `millrace serve`, behind a real nginx with the configuration that `millrace config` prints: what php-fpm does for visitors, and what an administrator can do beside.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.Json;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed partial class ServePoolTests : IAsyncLifetime
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    private readonly TemporaryDirectory _directory = new("pools", searchable: true);
    private readonly HttpClient _client = new() { Timeout = s_patience };
    private readonly List<IAsyncDisposable> _processes = [];
    private string _site = "";

    private string File => Path.Combine(_directory.Path, "millrace.json");

    private string Control => Path.Combine(_directory.Path, "run/control.sock");

    private string Root => Path.Combine(_directory.Path, "www");

    public ValueTask InitializeAsync()
    {
        Directory.CreateDirectory(Path.Combine(Root, "upload"));
        foreach (var (name, text) in new Dictionary<string, string>
        {
            ["index.php"] = "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', file_get_contents('php://input');",
            ["variables.php"] = "<?php header('Content-Type: application/json'); echo json_encode($_SERVER + getenv());",
            ["process.php"] = "<?php echo getmypid();",
            ["title.php"] = "<?php echo getenv('TITLE');",
            ["user.php"] = "<?php echo posix_geteuid();",
            ["slow.php"] = "<?php usleep(1000 * (int)$_GET['ms']); echo 'done';",
            ["accel.php"] = "<?php header('X-Accel-Redirect: /upload/a.jpg');",
            ["bytes.php"] = "<?php header(\"X-Bytes: \\xC3\\xA4 \\xFF\"); echo 'bytes';",
            ["end.php"] = "<?php posix_kill(getmypid(), 9);",
            ["memory.php"] = "<?php $all = str_repeat('x', 1024 * 1024 * (int)$_GET['mb']); usleep(1000 * (int)($_GET['ms'] ?? 0)); echo strlen($all);",
            ["upload/a.jpg"] = "<?php echo 'uploaded code runs';",
            [".env"] = "secret",
        })
        {
            System.IO.File.WriteAllText(Path.Combine(Root, name), text);
        }
        return ValueTask.CompletedTask;
    }

    public async ValueTask DisposeAsync()
    {
        foreach (IAsyncDisposable process in Enumerable.Reverse(_processes))
        {
            await process.DisposeAsync();
        }
        _client.Dispose();
        _directory.Dispose();
    }

    [Fact]
    public async Task Scripts_answer_behind_nginx_as_it_is_printed_and_nothing_else_runs()
    {
        Write(Pool("\"environment\": { \"TITLE\": \"A pool\" }"));
        CommandProcess daemon = await StartAsync();

        Assert.Equal("GET /index.php  ", await GetAsync("/"));
        Assert.Equal("GET /index.php /x/y ", await GetAsync("/index.php/x/y"));
        Assert.Equal("GET /index.php  ", await GetAsync("/nothing/here"));
        Assert.Equal("A pool", await GetAsync("/title.php"));
        string large = new('x', 300_000);
        Assert.Equal("POST /index.php  " + large, await PostAsync("/index.php", large));

        // The daemon's own is not for scripts. What nginx has said is as it was said.
        var variables = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(await GetAsync("/variables.php"))!;
        Assert.DoesNotContain(variables.Keys, static name => name.StartsWith("MILLRACE_", StringComparison.OrdinalIgnoreCase) || name.StartsWith("DOTNET_", StringComparison.Ordinal));
        Assert.Equal(("127.0.0.1", Root + "/variables.php", Root), (Text("REMOTE_ADDR"), Text("SCRIPT_FILENAME"), Text("DOCUMENT_ROOT")));
        Assert.StartsWith("nginx/", Text("SERVER_SOFTWARE"), StringComparison.Ordinal);
        string Text(string name) => variables[name].GetString()!;

        // The hole of 2010, and its relatives.
        foreach (string target in (string[])["/upload/a.jpg/x.php", "/upload/a.jpg%00.php", "/upload/nothing.php", "/.env", "/sub/../.env"])
        {
            using HttpResponseMessage answer = await _client.GetAsync(_site + target);
            Assert.DoesNotContain("runs", await answer.Content.ReadAsStringAsync(), StringComparison.Ordinal);
            Assert.True(answer.StatusCode is HttpStatusCode.NotFound or HttpStatusCode.BadRequest, $"{target}: {answer.StatusCode}");
        }
        Assert.Equal("<?php echo 'uploaded code runs';", await GetAsync("/upload/a.jpg"));

        // What a script says to nginx is nginx's.
        Assert.Equal("<?php echo 'uploaded code runs';", await GetAsync("/accel.php"));

        // Bytes beyond ASCII in a field are the script's and the visitor's (RFC 9110 §5.5).
        using (HttpResponseMessage bytes = await _client.GetAsync(_site + "/bytes.php"))
        {
            Assert.Equal((HttpStatusCode.OK, "\u00C3\u00A4 \u00FF"), (bytes.StatusCode, bytes.Headers.NonValidated["X-Bytes"].ToString()));
        }

        // A script that ends its process is one answer.
        using (HttpResponseMessage ended = await _client.PostAsync(_site + "/end.php", new StringContent("")))
        {
            Assert.Equal(HttpStatusCode.BadGateway, ended.StatusCode);
        }
        Assert.Equal("A pool", await GetAsync("/title.php"));
        Assert.Matches(@"(?m)^php +serving +1 ", (await DoAsync("status")).Output);

        int[] processes = [.. await WorkersAsync()];
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.All(processes, static process => Assert.False(Directory.Exists($"/proc/{process}")));
    }

    // Where the web server does not look itself, the pool does.
    [Theory]
    [InlineData("/upload/a.jpg/x.php", 404, "there is no file ")]
    [InlineData("/upload/a.jpg", 404, "does not end in .php, and is not run")]
    [InlineData("/index.php/x", 404, "does not end in .php, and is not run")]
    [InlineData("/title.php", 200, "")]
    [InlineData("title.php", 404, "is no full path")]
    [InlineData("", 404, "has not said which script")]
    public async Task The_pool_runs_no_file_that_is_no_script_whatever_the_web_server_names(string script, int status, string why)
    {
        Write(Pool());
        CommandProcess daemon = await StartAsync(withNginx: false);

        string named = script.StartsWith('/') ? Root + script : script;
        var (_, output, _) = await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket("php"), "/x.php", "--param", "SCRIPT_FILENAME=" + named);
        string apache = (await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket("php"), "/x.php", "--param", $"SCRIPT_FILENAME=proxy:fcgi://localhost{named}")).Output;

        Assert.StartsWith($"{status} ", output.Split('\n')[0], StringComparison.Ordinal);
        Assert.StartsWith(script.StartsWith('/') ? $"{status} " : "404 ", apache.Split('\n')[0], StringComparison.Ordinal);
        Assert.DoesNotContain("runs", output + apache, StringComparison.Ordinal);
        if (why.Length > 0)
        {
            await daemon.WaitForOutputAsync(why);
        }
    }

    [Fact]
    public async Task Under_load_processes_are_killed_and_settings_change_and_nothing_but_what_was_under_way_is_lost()
    {
        Write(Pool("\"max\": 4", "\"environment\": { \"TITLE\": \"old\" }"));
        await StartAsync();
        using var ending = new CancellationTokenSource();
        int answered = 0;
        int lost = 0;
        Task[] clients = [.. Enumerable.Range(0, 8).Select(i => Task.Run(async () =>
        {
            for (int n = 0; !ending.IsCancellationRequested; n++)
            {
                string text = string.Create(CultureInfo.InvariantCulture, $"{i}-{n}");
                using HttpResponseMessage answer = n % 2 == 0 ? await _client.PostAsync(_site + "/index.php", new StringContent(text)) : await _client.GetAsync(_site + "/index.php/" + text);
                string said = await answer.Content.ReadAsStringAsync();
                if (answer.StatusCode == HttpStatusCode.BadGateway && n % 2 == 0)
                {
                    Interlocked.Increment(ref lost);        // a POST that a killed process had
                    continue;
                }
                Assert.Equal((HttpStatusCode.OK, n % 2 == 0 ? $"POST /index.php  {text}" : $"GET /index.php /{text} "), (answer.StatusCode, said));
                Interlocked.Increment(ref answered);
            }
        }))];

        const int kills = 10;
        for (int i = 0; i < kills; i++)
        {
            await Task.Delay(200);
            foreach (int process in (await WorkersAsync()).Take(1))
            {
                using var one = Process.GetProcessById(process);
                one.Kill();
            }
        }
        await Task.Delay(1000);     // what the last of them had has been answered
        Assert.InRange(Volatile.Read(ref lost), 0, kills);

        int before = Volatile.Read(ref lost);
        for (int i = 0; i < 3; i++)
        {
            Write(Pool(string.Create(CultureInfo.InvariantCulture, $"\"max\": {5 + i}"), $"\"environment\": {{ \"TITLE\": \"new {i}\" }}"));
            var (exitCode, _, error) = await DoAsync("reload");
            Assert.True(exitCode == 0, error);
            Assert.Equal($"new {i}", await GetAsync("/title.php"));
        }
        Assert.Equal(0, (await DoAsync("reload", "php")).ExitCode);
        await ending.CancelAsync();
        await Task.WhenAll(clients);

        TestContext.Current.TestOutputHelper?.WriteLine($"{answered} answered, {lost} lost with {kills} processes that were killed");
        Assert.Equal(before, lost);
        Assert.True(answered > 100, answered.ToString(CultureInfo.InvariantCulture));
    }

    [Fact]
    public async Task An_administrator_has_the_same_command_for_it_as_for_pools_of_applications()
    {
        Write(Pool("\"min\": 2", "\"max\": 2"));
        await StartAsync();
        string table = (await DoAsync("pool", "list")).Output;
        Assert.Matches(@"(?m)^php +\d+ \(millrace serve\) +open +2 \(2-2\) ", table);
        Assert.Equal("php\n", (await CommandProcess.RunAsync("completion", "pools", "--control", Control)).Output);

        int[] first = [.. await WorkersAsync()];
        Assert.Equal((0, "php: worker 1 has been killed, and another takes its place\n", ""), await DoAsync("pool", "kill", "php", "1"));
        Assert.Equal((0, "php: worker 2 ends when its call has ended, and another takes its place\n", ""), await DoAsync("pool", "recycle", "php", "2"));
        await WaitForAsync(async () => (await WorkersAsync()).ToArray() is { Length: 2 } now && !now.Intersect(first).Any());
        Assert.Equal((0, "php: has from 3 to 5 workers\n", ""), await DoAsync("pool", "resize", "php", "3", "5"));
        await WaitForAsync(async () => (await WorkersAsync()).Count() == 3);

        Assert.Equal((0, "php: is held: no worker has a call, and calls wait until it is released\n", ""), await DoAsync("pool", "hold", "php"));
        Task<string> waiting = GetAsync("/process.php");
        await Task.Delay(500);
        Assert.False(waiting.IsCompleted);
        Assert.Equal((0, "php: is released\n", ""), await DoAsync("pool", "release", "php"));
        Assert.Contains(int.Parse(await waiting, CultureInfo.InvariantCulture), await WorkersAsync());

        int[] then = [.. await WorkersAsync()];
        Assert.Equal((0, "php: has workers of generation 2\n", ""), await DoAsync("pool", "swap", "php"));
        Assert.Empty(then.Intersect(await WorkersAsync()));

        var (exitCode, _, error) = await DoAsync("pool", "kill", "php", "99");
        Assert.Equal((1, "millrace: php: there is no worker 99.\n"), (exitCode, error));
        Assert.Equal((1, "", "millrace: There is no pool phq. There are: php.\n"), await DoAsync("pool", "hold", "phq"));
        Assert.Equal("millrace: php is a pool: `millrace pool resize php MIN MAX` says how many processes it has.\n", (await DoAsync("scale", "php", "3")).Error);

        // A visitor is no daemon, whatever he says.
        using var request = new HttpRequestMessage(HttpMethod.Get, _site + "/index.php/pools");
        request.Headers.Add("Millrace-Pool-Key", new string('0', 32));
        using HttpResponseMessage answer = await _client.SendAsync(request);
        Assert.Equal("GET /index.php /pools ", await answer.Content.ReadAsStringAsync());
    }

    [Fact]
    public async Task Its_limits_hold()
    {
        Write(Pool("\"min\": 1", "\"max\": 1", "\"limits\": { \"memory\": \"80m\", \"call\": \"6s\", \"wait\": \"3s\", \"queue\": 1, \"body\": \"32m\" }", "\"recycle\": { \"requests\": 50 }"));
        await StartAsync(nginx: static block => block.Replace("client_max_body_size 32m", "client_max_body_size 100m", StringComparison.Ordinal));

        Assert.Equal("done", await GetAsync("/slow.php?ms=500"));
        Assert.Equal(HttpStatusCode.GatewayTimeout, await StatusOfAsync("/slow.php?ms=20000"));
        await WaitForAsync(async () => await StatusOfAsync("/title.php") == HttpStatusCode.OK);

        // One is answered, one waits, and there is no room for a third.
        Task<HttpStatusCode>[] three = [.. Enumerable.Range(0, 3).Select(_ => StatusOfAsync("/slow.php?ms=700"))];
        Assert.Equal([HttpStatusCode.OK, HttpStatusCode.OK, HttpStatusCode.ServiceUnavailable], (await Task.WhenAll(three)).Order());
        Task<HttpStatusCode>[] two = [.. Enumerable.Range(0, 2).Select(_ => StatusOfAsync("/slow.php?ms=4500"))];
        Assert.Equal([HttpStatusCode.OK, HttpStatusCode.ServiceUnavailable], (await Task.WhenAll(two)).Order());

        Assert.Equal("10485760", await GetAsync("/memory.php?mb=10"));
        Assert.Equal(HttpStatusCode.BadGateway, await StatusOfAsync("/memory.php?mb=100&ms=5000"));

        Assert.Equal(HttpStatusCode.OK, (await _client.PostAsync(_site + "/title.php", new ByteArrayContent(new byte[32 << 20]))).StatusCode);
        Assert.Equal(HttpStatusCode.RequestEntityTooLarge, (await _client.PostAsync(_site + "/title.php", new ByteArrayContent(new byte[(32 << 20) + 1]))).StatusCode);

        string process = await GetAsync("/process.php");
        await WaitForAsync(async () => await GetAsync("/process.php") != process);
    }

    [Fact]
    public async Task With_a_root_it_finds_its_scripts_itself_also_over_HTTP_and_at_a_shared_address()
    {
        string own = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        string front = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        Write($$"""{ "name": "php", "urls": "{{own}}", "on": "front", "path": "/blog", "root": "www", "min": 1, "max": 2, "timeouts": { "settle": "100ms" } }""", $$""" "shared": { "front": "{{front}}" },""");
        await StartAsync(withNginx: false);

        foreach (string site in (string[])[own, front + "/blog"])
        {
            string prefix = site == own ? "" : "/blog";
            Assert.Equal($"GET {prefix}/index.php  ", await _client.GetStringAsync(site + "/"));
            Assert.Equal($"GET {prefix}/index.php /a ", await _client.GetStringAsync(site + "/index.php/a"));
            Assert.Equal($"GET {prefix}/index.php  ", await _client.GetStringAsync(site + "/nothing"));
            Assert.Equal("<?php echo 'uploaded code runs';", await _client.GetStringAsync(site + "/upload/a.jpg"));
            foreach (string target in (string[])["/upload/a.jpg/x.php", "/upload/x.php"])
            {
                Assert.Equal(HttpStatusCode.NotFound, (await _client.GetAsync(site + target)).StatusCode);
            }
            Assert.DoesNotContain("secret", await _client.GetStringAsync(site + "/.env"), StringComparison.Ordinal);
        }

        // The web server names another script: the path decides.
        Assert.Contains("GET ", await _client.GetStringAsync(front + "/blog/"), StringComparison.Ordinal);
        Assert.Equal(HttpStatusCode.NotFound, (await _client.GetAsync(front + "/")).StatusCode);
    }

    [Theory]
    [InlineData("\"command\": \"no-such-program\"", "no-such-program")]
    [InlineData("\"command\": \"/bin/cat\"", "/bin/cat")]
    [InlineData("\"command\": \"/bin/false\"", "/bin/false")]
    public async Task A_program_that_does_not_start_is_said_and_answers_503_until_the_file_is_right(string command, string why)
    {
        Write(Pool(command, "\"timeouts\": { \"start\": \"5s\", \"settle\": \"100ms\" }"));
        CommandProcess daemon = await StartAsync(waitFor: "php: ", withNginx: false);

        await WaitForAsync(async () => (await StatusAsync()).Contains("\"waiting\"", StringComparison.Ordinal));
        Assert.Contains(why, daemon.Output + daemon.Error, StringComparison.Ordinal);
        Assert.Contains("503", (await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket("php"), "/x.php")).Output, StringComparison.Ordinal);

        Write(Pool());
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.StartsWith("200 ", (await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket("php"), "/title.php", "--param", $"SCRIPT_FILENAME={Root}/title.php")).Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Its_process_leads_a_session_of_its_own_and_is_in_no_group_with_those_that_it_starts()
    {
        Write(Pool("\"min\": 1", "\"max\": 1"));
        await StartAsync(withNginx: false);
        int host = JsonDocument.Parse(await StatusAsync()).RootElement.GetProperty("apps")[0].GetProperty("processes")[0].GetProperty("process").GetInt32();
        int worker = Assert.Single(await WorkersAsync());

        Assert.Equal((host, host), ServeTests.GroupAndSessionOf(host));
        Assert.Equal((worker, host), ServeTests.GroupAndSessionOf(worker));
    }

    // As whoever tidies up /tmp does.
    [Fact]
    public async Task Where_the_folder_of_its_sockets_is_removed_it_goes_on_with_another()
    {
        Write(Pool("\"min\": 1", "\"max\": 1"));
        string temporary = Directory.CreateDirectory(Path.Combine(_directory.Path, "tmp")).FullName;
        await StartAsync(variables: "TMPDIR=" + temporary);
        string Folder() => Assert.Single(Directory.GetDirectories(temporary, "millrace-pool-*"));
        string before = Folder();
        int worker = Assert.Single(await WorkersAsync());

        Directory.Delete(before, recursive: true);
        Assert.Equal(0, (await DoAsync("pool", "recycle", "php", "1")).ExitCode);
        await WaitForAsync(async () => (await WorkersAsync()).ToArray() is [var now] && now != worker);

        Assert.Equal((await WorkersAsync()).Single().ToString(CultureInfo.InvariantCulture), await GetAsync("/process.php"));
        Assert.NotEqual(before, Folder());
        Assert.Equal(0, (await DoAsync("pool", "swap", "php")).ExitCode);
    }

    // ---- how it is done ----

    private string Socket(string pool) => Path.Combine(_directory.Path, pool + ".sock");

    private string Pool(params string[] settings)
    {
        bool Has(string name) => settings.Any(its => its.StartsWith($"\"{name}\"", StringComparison.Ordinal));
        string[] all = [.. settings, .. Has("timeouts") ? Array.Empty<string>() : ["\"timeouts\": { \"settle\": \"100ms\" }"], .. Has("command") ? Array.Empty<string>() : ["\"arguments\": [\"-d\", \"html_errors=0\"]"]];
        return $$"""{ "name": "php", "urls": "fastcgi://unix:{{Socket("php")}}?mode=666", {{string.Join(", ", all)}} }""";
    }

    private void Write(string pool, string before = "") =>
        System.IO.File.WriteAllText(File, $"{{ \"control\": \"run/control.sock\", \"snapshots\": \"snapshots\", {before} \"pools\": [\n{pool}\n] }}\n");

    private async Task<CommandProcess> StartAsync(string waitFor = "php: generation 1 serves", bool withNginx = true, Func<string, string>? nginx = null, params string[] variables)
    {
        Assert.Equal(0, withNginx ? (await CommandProcess.RunAsync("check", File)).ExitCode : 0);
        CommandProcess daemon = CommandProcess.MillraceWith(variables, "serve", File);
        _processes.Add(daemon);
        await daemon.WaitForOutputAsync(waitFor);
        if (withNginx)
        {
            await StartNginxAsync(nginx ?? (static block => block));
        }
        return daemon;
    }

    private async Task StartNginxAsync(Func<string, string> change)
    {
        int port = FreePort();
        _site = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{port}");
        string block = change((await CommandProcess.RunAsync("config", "nginx", File)).Output)
            .Replace("listen 80;", string.Create(CultureInfo.InvariantCulture, $"listen {port};"), StringComparison.Ordinal)
            .Replace("    listen [::]:80;\n", "", StringComparison.Ordinal)
            .Replace("/var/www/html", Root, StringComparison.Ordinal);
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "nginx")).FullName;
        string configuration = Path.Combine(folder, "nginx.conf");
        await System.IO.File.WriteAllTextAsync(configuration, $$"""
            daemon off;
            {{(Environment.IsPrivilegedProcess ? "user root;" : "")}}
            pid {{folder}}/pid;
            events { }
            http {
                access_log off;
                client_body_temp_path {{folder}}/body;
                fastcgi_temp_path {{folder}}/fastcgi;
                proxy_temp_path {{folder}}/proxy;
                scgi_temp_path {{folder}}/scgi;
                uwsgi_temp_path {{folder}}/uwsgi;
                {{block}}
            }
            """);
        var start = new ProcessStartInfo(FrontEndProcess.Find("nginx", new NginxProgram().Places), ["-p", folder, "-e", Path.Combine(folder, "error.log"), "-c", configuration]);
        _processes.Add(await FrontEndProcess.StartAsync(start, new IPEndPoint(IPAddress.Loopback, port)));
    }

    private async Task<string> GetAsync(string target)
    {
        using HttpResponseMessage answer = await _client.GetAsync(_site + target);
        string text = await answer.Content.ReadAsStringAsync();
        Assert.True(answer.IsSuccessStatusCode, $"{target}: {answer.StatusCode} {text}");
        return text;
    }

    private async Task<string> PostAsync(string target, string body)
    {
        using HttpResponseMessage answer = await _client.PostAsync(_site + target, new StringContent(body));
        return await answer.Content.ReadAsStringAsync();
    }

    private async Task<HttpStatusCode> StatusOfAsync(string target)
    {
        using HttpResponseMessage answer = await _client.GetAsync(_site + target);
        return answer.StatusCode;
    }

    private Task<(int ExitCode, string Output, string Error)> DoAsync(params string[] arguments) => RunningDaemon.DoAsync([.. arguments, "--control", Control]);

    private Task<string> StatusAsync() => RunningDaemon.StatusAsync(Control);

    private async Task<IEnumerable<int>> WorkersAsync()
    {
        var (exitCode, output, error) = await DoAsync("pool", "list", "--json");
        Assert.True(exitCode == 0, error);
        return [.. JsonDocument.Parse(output).RootElement.EnumerateArray().SelectMany(static its => its.GetProperty("pools").EnumerateArray()).SelectMany(static pool => pool.GetProperty("workers").EnumerateArray())
            .Where(static worker => worker.GetProperty("processId").ValueKind == JsonValueKind.Number).Select(static worker => worker.GetProperty("processId").GetInt32())];
    }

    private static async Task WaitForAsync(Func<Task<bool>> condition)
    {
        for (long begun = Stopwatch.GetTimestamp(); !await condition(); await Task.Delay(50))
        {
            Assert.True(Stopwatch.GetElapsedTime(begun) < s_patience, "It has not come about in time.");
        }
    }

    private static int FreePort()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        return ((IPEndPoint)listener.LocalEndpoint).Port;
    }
}
