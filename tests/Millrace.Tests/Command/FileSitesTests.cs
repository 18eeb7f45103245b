// `millrace config FRONT-END FILE`: the sites of a file of `millrace serve`.

namespace Millrace.Tests.Command;

public sealed class FileSitesTests : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-sites-");

    private string FilePath => Path.Combine(_folder.FullName, "millrace.json");

    public void Dispose() => _folder.Delete(recursive: true);

    [Fact]
    public async Task Each_shared_address_and_each_address_of_its_own_is_a_site()
    {
        Write("""
            { "shared": { "front": "fastcgi://unix:/run/front.sock?mode=660", "plain": "http://127.0.0.1:81" }, "apps": [
              { "name": "blog", "target": "b", "on": "front", "host": ["blog.example", "*.blog.example"] },
              { "name": "wiki", "target": "w", "on": "front", "host": "blog.example", "path": "/wiki" },
              { "name": "rest", "target": "r", "on": "plain" },
              { "name": "shop", "target": "s", "urls": "fastcgi://unix:/run/shop.sock;http://127.0.0.1:5000" } ] }
            """);

        var result = await CommandLine.RunAsync("config", "nginx", FilePath);

        Assert.Equal((0, ""), (result.ExitCode, result.Error));
        string[] lines = result.Output.Split('\n');
        Assert.Equal("# /etc/nginx/conf.d/millrace.conf, then: nginx -t && nginx -s reload", lines[0]);
        Assert.DoesNotContain(lines[1..], static line => line.StartsWith("# /etc", StringComparison.Ordinal));
        Assert.Equal(["upstream shop {", "upstream front {", "upstream plain {"], lines.Where(static line => line.StartsWith("upstream", StringComparison.Ordinal)));
        Assert.Equal(["server_name shop.localhost;", "server_name blog.example *.blog.example;", "server_name localhost 127.0.0.1;"], lines.Select(static line => line.Trim()).Where(static line => line.StartsWith("server_name", StringComparison.Ordinal)));
        Assert.Contains("    server unix:/run/front.sock;", lines);
    }

    [Fact]
    public async Task An_address_of_every_interface_is_reached_on_this_machine()
    {
        Write("""{ "apps": [ { "name": "shop", "target": "s", "urls": "http://*:8080" }, { "name": "wiki", "target": "w", "urls": "fastcgi://0.0.0.0:9000?allow=10.0.0.0/8" } ] }""");

        var result = await CommandLine.RunAsync("config", "nginx", FilePath);

        Assert.Equal((0, ""), (result.ExitCode, result.Error));
        Assert.Contains("    server 127.0.0.1:8080;\n", result.Output, StringComparison.Ordinal);
        Assert.Contains("    server 127.0.0.1:9000;\n", result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_pool_is_a_site_whose_scripts_nginx_and_Apache_find_and_others_only_where_the_pool_does()
    {
        Write("""{ "pools": [ { "name": "p-1", "urls": "fastcgi://unix:/run/p.sock", "suffixes": [".php", ".phtml"], "limits": { "body": "64m" } } ] }""");
        string nginx = (await CommandLine.RunAsync("config", "nginx", FilePath)).Output;
        Assert.Contains("root /var/www/html;             # where the scripts lie, as the pool sees it", nginx, StringComparison.Ordinal);
        Assert.Contains("""location ~ "(?:\\.php|\\.phtml)(/|$)" {""", nginx, StringComparison.Ordinal);
        Assert.Contains("try_files $fastcgi_script_name =404;", nginx, StringComparison.Ordinal);
        Assert.Contains("fastcgi_param PATH_INFO         $path_info_p_1;", nginx, StringComparison.Ordinal);
        Assert.Contains("client_max_body_size 64m;", nginx, StringComparison.Ordinal);
        string apache = (await CommandLine.RunAsync("config", "apache", FilePath)).Output;
        Assert.Contains("    # where the scripts lie, as the pool sees it\n    DocumentRoot \"/var/www/html\"\n    # as \"limits.body\" of the pool (64m)\n    LimitRequestBody 67108864\n", apache, StringComparison.Ordinal);
        Assert.Contains("""    <FilesMatch "(?:\.php|\.phtml)$">""" + "\n" + """        SetHandler "proxy:unix:/run/p.sock|fcgi://p-1""" + "\"\n", apache, StringComparison.Ordinal);
        Assert.Equal(
            new CommandLine(2, "", $"millrace: p-1 is a pool that has its scripts named by the web server, and a configuration of caddy for that is not printed. Say \"root\" in {FilePath}, the folder that they lie in: the pool finds them itself then.\n"),
            await CommandLine.RunAsync("config", "caddy", FilePath));

        Write("""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", "root": "/srv/a b" } ] }""");
        Assert.Contains("root \"/srv/a b\";\n", (await CommandLine.RunAsync("config", "nginx", FilePath)).Output, StringComparison.Ordinal);
        Assert.Contains("    DocumentRoot \"/srv/a b\"\n", (await CommandLine.RunAsync("config", "apache", FilePath)).Output, StringComparison.Ordinal);
        Assert.Contains("reverse_proxy", (await CommandLine.RunAsync("config", "caddy", FilePath)).Output, StringComparison.Ordinal);

        // A word ends with its quotes: what stands behind them is refused.
        Write("""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", "root": "/srv", "fallback": "in dex.php" } ] }""");
        Assert.Contains("try_files $uri $uri/ \"/in dex.php$is_args$args\";\n", (await CommandLine.RunAsync("config", "nginx", FilePath)).Output, StringComparison.Ordinal);

        Write("""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", "root": "/srv/$x" } ] }""");
        Assert.Equal(
            new CommandLine(2, "", "millrace: Apache cannot be told of '/srv/$x': choose a path without quotes, \\ and $.\n"),
            await CommandLine.RunAsync("config", "apache", FilePath));

        Write("""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", "suffixes": [] } ] }""");
        Assert.Contains("MILLRACE_PATH", (await CommandLine.RunAsync("config", "nginx", FilePath)).Output, StringComparison.Ordinal);
    }

    // nginx would have the visitor choose the folder.
    [Theory]
    [InlineData("/srv/$host/www", "\"root\": \"/srv/$host/www\"")]
    [InlineData("$host.php", "\"root\": \"/srv/www\", \"index\": [\"index.php\", \"$host.php\"]")]
    [InlineData("/a$uri.php", "\"root\": \"/srv/www\", \"fallback\": \"a$uri.php\"")]
    public async Task What_nginx_would_take_for_a_variable_is_refused(string path, string settings)
    {
        Write($$"""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", {{settings}} } ] }""");
        Assert.Equal(new CommandLine(2, "", $"millrace: nginx cannot be told of '{path}': choose a path without $.\n"), await CommandLine.RunAsync("config", "nginx", FilePath));
    }

    [Fact]
    public async Task A_socket_that_no_block_can_name_is_refused_in_a_file_too()
    {
        Write("""{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a\\" } ] }""");
        var result = await CommandLine.RunAsync("config", "lighttpd", FilePath);
        Assert.Equal((2, ""), (result.ExitCode, result.Output));
        Assert.Contains("backslash or a control character", result.Error, StringComparison.Ordinal);
    }

    // a2ensite names files, and each kind of address needs modules of its own.
    [Fact]
    public async Task The_head_for_Apache_enables_the_file_and_what_any_of_its_sites_needs()
    {
        Write("""{ "apps": [ { "name": "shop", "target": "s", "urls": "fastcgi://unix:/run/shop.sock" }, { "name": "blog", "target": "b", "urls": "http://unix:/run/blog.sock" }, { "name": "wiki", "target": "w", "urls": "http://127.0.0.1:5000" } ] }""");
        string[] lines = (await CommandLine.RunAsync("config", "apache", FilePath)).Output.Split('\n');
        Assert.Equal("# /etc/apache2/sites-available/millrace.conf, then: a2enmod proxy_fcgi proxy_http headers && a2ensite millrace && apachectl configtest && apachectl graceful", lines[0]);
        Assert.Equal("<VirtualHost *:80>", lines[1]);
        Assert.Equal(3, lines.Count(static line => line == "<VirtualHost *:80>"));
        Assert.DoesNotContain(lines[1..], static line => line.Contains("a2en", StringComparison.Ordinal));
    }

    // What lies beside the scripts is for nobody then, and the web server would send it.
    [Theory]
    [InlineData("nginx", "root ", "try_files")]
    [InlineData("apache", "DocumentRoot", "Require all granted")]
    public async Task A_pool_that_sends_no_files_has_no_web_server_send_them(string frontEnd, params string[] sends)
    {
        Write("""{ "pools": [ { "name": "p", "urls": "fastcgi://unix:/run/p.sock", "root": "/srv/www", "serveFiles": false, "limits": { "body": "64m" } } ] }""");
        var result = await CommandLine.RunAsync("config", frontEnd, FilePath);
        Assert.Equal((0, ""), (result.ExitCode, result.Error));
        Assert.All(sends, mark => Assert.DoesNotContain(mark, result.Output, StringComparison.Ordinal));
        Assert.Contains("67108864", result.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("nginx", "client_max_body_size 134217728;")]
    [InlineData("apache", "LimitRequestBody 134217728\n")]
    [InlineData("lighttpd", "server.max-request-size = 131072 ")]
    [InlineData("h2o", "limit-request-body: 134217728 ")]
    public async Task The_web_server_takes_as_much_as_whoever_takes_most_behind_it(string frontEnd, string line)
    {
        Write("""{ "shared": { "front": "fastcgi://unix:/run/front.sock" }, "apps": [ { "name": "a", "target": "t", "on": "front" } ], "pools": [ { "name": "p", "on": "front", "path": "/p", "root": "/srv/www" } ] }""");
        Assert.Contains(line, (await CommandLine.RunAsync("config", frontEnd, FilePath)).Output, StringComparison.Ordinal);
    }

    // As for an application: two names that lead to one pool, of which one is guarded, are told apart by the same host as nginx has gone by.
    [Fact]
    public async Task The_host_in_a_target_is_the_one_that_scripts_are_told_RFC9112_3_2_2()
    {
        Write("""{ "pools": [ { "name": "p-1", "urls": "fastcgi://unix:/run/p.sock" } ] }""");
        string nginx = (await CommandLine.RunAsync("config", "nginx", FilePath)).Output;
        Assert.Contains("map $request $host_p_1 {\n", nginx, StringComparison.Ordinal);
        Assert.Contains("fastcgi_param HTTP_HOST         $host_p_1 if_not_empty;\n", nginx, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("apache", "<VirtualHost")]
    [InlineData("caddy", "\treverse_proxy")]
    public async Task Web_servers_that_take_several_sites_in_a_file_get_them(string frontEnd, string mark)
    {
        Write("""{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a.sock" }, { "name": "b", "target": "t", "urls": "fastcgi://unix:/run/b.sock" } ] }""");

        var result = await CommandLine.RunAsync("config", frontEnd, FilePath);

        Assert.Equal(2, result.Output.Split('\n').Count(line => line.StartsWith(mark, StringComparison.Ordinal)));
        Assert.Contains("a.localhost", result.Output, StringComparison.Ordinal);
        Assert.Contains("b.localhost", result.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("haproxy")]
    [InlineData("lighttpd")]
    [InlineData("h2o")]
    public async Task The_others_get_one_site_or_a_sentence(string frontEnd)
    {
        Write("""{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a.sock" } ] }""");
        Assert.Equal(0, (await CommandLine.RunAsync("config", frontEnd, FilePath)).ExitCode);

        Write("""{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a.sock" }, { "name": "b", "target": "t", "urls": "fastcgi://unix:/run/b.sock" } ] }""");
        Assert.Equal(
            new CommandLine(2, "", $"millrace: {FilePath} has 2 sites, and a configuration of {frontEnd} is printed for one at a time: millrace config {frontEnd} ADDRESS --host NAME.\n"),
            await CommandLine.RunAsync("config", frontEnd, FilePath));
    }

    [Fact]
    public async Task A_host_for_a_whole_file_is_a_mistake_and_so_is_one_in_the_file()
    {
        Write("""{ "apps": [ { "name": "a", "target": "t", "urls": "fastcgi://unix:/run/a.sock" } ] }""");
        Assert.StartsWith("millrace: --host and --path are for one address", (await CommandLine.RunAsync("config", "nginx", FilePath, "--host", "x")).Error, StringComparison.Ordinal);

        Write("{ \"apps\": [] }");
        Assert.StartsWith($"millrace: {FilePath}:1:11: \"apps\" is empty", (await CommandLine.RunAsync("config", "nginx", FilePath)).Error, StringComparison.Ordinal);
    }

    private void Write(string text) => File.WriteAllText(FilePath, text);
}
