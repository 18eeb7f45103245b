// What a script that has been broken into finds of the daemon's, and what visitors may say.

using System.Globalization;
using System.Net;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServePoolTests
{
    private const string Secrets = """
        <?php
        $found = 0;
        foreach (glob('/proc/[0-9]*/environ') as $file) {
            if (preg_match_all('/(MILLRACE_POOL_KEY|MILLRACE_SERVE_ROUTED)=[0-9A-F]{32}/', (string)@file_get_contents($file), $all)) {
                $found += count($all[0]);
            }
        }
        echo posix_geteuid() . ' ' . $found . ' ' . (int)is_readable('/proc/' . posix_getppid() . '/mem');
        """;

    // Of root's nothing is hidden from root.
    [Fact]
    public async Task A_script_finds_no_key_in_the_environment_of_the_pools_process()
    {
        Add("secrets.php", Secrets);
        string user = Environment.IsPrivilegedProcess ? "\"user\": \"nobody\"" : "\"idle\": \"60s\"";
        string front = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        Write(Pool(user, "\"root\": \"www\"", "\"on\": \"front\""), $"\"shared\": {{ \"front\": \"{front}\" }},");
        await StartAsync("php: generation 1 serves", withNginx: false);

        string[] found = (await _client.GetStringAsync(front + "/secrets.php")).Split(' ');

        Assert.Equal((Environment.IsPrivilegedProcess, "0", "0"), (found[0] != "0" && Environment.IsPrivilegedProcess, found[1], found[2]));
    }

    [Fact]
    public async Task What_only_the_daemon_may_ask_is_like_everything_else_to_a_visitor()
    {
        string own = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        string front = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        Write(Pool("\"root\": \"www\"", "\"on\": \"front\"", "\"path\": \"/blog\"").Replace($"fastcgi://unix:{Socket("php")}?mode=666", own, StringComparison.Ordinal), $"\"shared\": {{ \"front\": \"{front}\" }},");
        await StartAsync(withNginx: false);

        Assert.Equal("GET /index.php  ", await AskAsync(own + "/", "health.pool.invalid"));
        Assert.Equal("GET /blog/index.php  ", await AskAsync(front + "/blog/", "health.pool.invalid"));
        Assert.Equal("GET /blog/index.php  ", await AskAsync(front + "/blog/", "health.router.invalid"));
        Assert.Equal("Not found\n", await AskAsync(front + "/", "health.router.invalid"));
        Assert.Matches(@"(?m)^php +serving ", (await DoAsync("status")).Output);
    }

    // X-Accel-* is for a web server that speaks FastCGI. A router at an HTTP address is none: what is behind it is its client.
    [Fact]
    public async Task What_a_script_says_to_its_web_server_reaches_no_visitor_of_a_router()
    {
        Add("hints.php", "<?php header('X-Accel-Buffering: no'); header('X-Accel-Expires: 60'); echo 'hints';");
        Add("file.php", "<?php header('X-Sendfile: /srv/secret/path');");
        string front = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{FreePort()}");
        Write(Pool("\"root\": \"www\"", "\"on\": \"front\""), $"\"shared\": {{ \"front\": \"{front}\" }},");
        await StartAsync(withNginx: false);

        foreach (string target in (string[])["/hints.php", "/file.php", "/accel.php"])
        {
            for (int i = 0; i < 2; i++)
            {
                // What has a large body is passed on in another way.
                using var request = new HttpRequestMessage(i == 0 ? HttpMethod.Get : HttpMethod.Post, front + target) { Content = i == 0 ? null : new StringContent(new string('x', 100_000)) };
                using HttpResponseMessage answer = await _client.SendAsync(request);
                Assert.DoesNotContain(answer.Headers, static field => field.Key.StartsWith("X-Accel", StringComparison.OrdinalIgnoreCase) || field.Key.Equals("X-Sendfile", StringComparison.OrdinalIgnoreCase));
            }
        }
        await RequireHandedOnAsync("fastcgi://unix:" + Socket("php"));
    }

    [Fact]
    public async Task What_a_script_says_to_its_web_server_reaches_it_through_a_router_that_it_speaks_FastCGI_with()
    {
        string front = $"fastcgi://unix:{Socket("front")}";
        Write(Pool("\"root\": \"www\"", "\"on\": \"front\""), $"\"shared\": {{ \"front\": \"{front}\" }},");
        await StartAsync(withNginx: false);

        await RequireHandedOnAsync(front);
    }

    private static async Task RequireHandedOnAsync(string address) =>
        Assert.Contains("X-Accel-Redirect: /upload/a.jpg", (await CommandProcess.RunAsync("get", address, "/accel.php", "--param", "SERVER_SOFTWARE=nginx/1.22.1")).Output, StringComparison.OrdinalIgnoreCase);

    [Fact]
    public async Task With_a_root_what_the_web_server_says_goes_on_as_it_was_said_and_the_visitors_host_does_not_come_before_it()
    {
        Write(Pool("\"root\": \"www\""));
        await StartAsync(withNginx: false);

        string[] given = ["SERVER_NAME=shop.example", "SERVER_PORT=8443", "HTTPS=on", "SERVER_SOFTWARE=nginx/1.22.1", "REMOTE_USER=ann", "SCRIPT_FILENAME=/etc/passwd", "DOCUMENT_ROOT=/etc", "OWN=x"];
        string said = (await CommandProcess.RunAsync(["get", "fastcgi://unix:" + Socket("php"), "/variables.php", "--body-only", "-H", "Host: evil.example", .. given.SelectMany(static its => (string[])["--param", its])])).Output;
        var variables = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(said)!;

        foreach (string pair in given.Where(static its => !its.StartsWith("SCRIPT_", StringComparison.Ordinal) && !its.StartsWith("DOCUMENT_", StringComparison.Ordinal)))
        {
            Assert.Equal(pair, $"{pair.Split('=')[0]}={variables[pair.Split('=')[0]]}");
        }
        Assert.Equal(("evil.example", Root + "/variables.php", Root), (variables["HTTP_HOST"].GetString(), variables["SCRIPT_FILENAME"].GetString(), variables["DOCUMENT_ROOT"].GetString()));
    }

    private void Add(string name, string script) => System.IO.File.WriteAllText(Path.Combine(Root, name), script);

    private async Task<string> AskAsync(string address, string host)
    {
        using var request = new HttpRequestMessage(HttpMethod.Get, address);
        request.Headers.Host = host;
        using HttpResponseMessage answer = await _client.SendAsync(request);
        return await answer.Content.ReadAsStringAsync();
    }
}
