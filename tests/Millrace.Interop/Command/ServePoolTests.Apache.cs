// A pool of the file behind a real Apache with the configuration that `millrace config` prints, which is what php-fpm has there: SetHandler "proxy:unix:...|fcgi://...".

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;
using Millrace.Interop.Programs;

namespace Millrace.Interop.Command;

public sealed partial class ServePoolTests
{
    [Fact]
    public async Task Scripts_answer_behind_Apache_that_names_them_with_proxy_fcgi()
    {
        Write(Pool());
        await StartAsync(withNginx: false);
        await StartApacheAsync();

        Assert.Equal("GET /index.php  ", await GetAsync("/"));
        Assert.Equal("GET /index.php /x/y ", await GetAsync("/index.php/x/y"));
        Assert.Equal("GET /index.php  ", await GetAsync("/nothing/here"));
        string large = new('x', 300_000);
        Assert.Equal("POST /index.php  " + large, await PostAsync("/index.php", large));
        Assert.Equal("POST /index.php  " + large, await PostInChunksAsync("/index.php", large));

        foreach (string target in (string[])["/upload/a.jpg/x.php", "/upload/a.jpg%00.php", "/upload/nothing.php", "/index.php%2fx", "/.env", "/sub/../.env"])
        {
            using HttpResponseMessage answer = await _client.GetAsync(_site + target);
            Assert.DoesNotContain("runs", await answer.Content.ReadAsStringAsync(), StringComparison.Ordinal);
            Assert.True(answer.StatusCode is HttpStatusCode.NotFound or HttpStatusCode.BadRequest or HttpStatusCode.Forbidden, $"{target}: {answer.StatusCode}");
        }
        Assert.Equal("<?php echo 'uploaded code runs';", await GetAsync("/upload/a.jpg"));
    }

    [Fact]
    public async Task What_is_no_UTF8_is_the_same_bytes_to_Apache_to_the_pool_and_to_the_script()
    {
        Add("l\u00e9.php", "<?php echo 'runs';");
        Add("bytes.php", "<?php echo bin2hex($_SERVER['PATH_INFO']), ' ', bin2hex($_SERVER['HTTP_COOKIE']);");
        Write(Pool());
        await StartAsync(withNginx: false);
        await StartApacheAsync();

        Assert.Equal("runs", await GetAsync("/l%c3%a9.php"));
        using (HttpResponseMessage another = await _client.GetAsync(_site + "/l%e9.php"))
        {
            Assert.NotEqual("runs", await another.Content.ReadAsStringAsync());     // rules of Apache look at the name that was asked for
        }
        using var handler = new SocketsHttpHandler { RequestHeaderEncodingSelector = static (_, _) => Encoding.Latin1, UseCookies = false };
        using var client = new HttpClient(handler);
        using var request = new HttpRequestMessage(HttpMethod.Get, _site + "/bytes.php/%ff%c3%a4");
        request.Headers.TryAddWithoutValidation("Cookie", "a=caf\u00e9");
        using HttpResponseMessage answer = await client.SendAsync(request);
        Assert.Equal("2fffc3a4 613d636166e9", await answer.Content.ReadAsStringAsync());
    }

    [Fact]
    public async Task A_method_in_lower_case_is_none_RFC9110_9_1()
    {
        Add("length.php", "<?php header('Content-Length: 3'); echo 'abc';");
        Write(Pool());
        await StartAsync(withNginx: false);
        await StartApacheAsync();

        WireResponse answer = await PhpSite.AskAsync(IPEndPoint.Parse(new Uri(_site).Authority), "head", "/length.php");
        Assert.Equal((501, ""), (answer.Status, answer.Text));
        Assert.DoesNotContain("unhandled", (await DoAsync("logs", "php")).Output, StringComparison.Ordinal);
    }

    private async Task<string> PostInChunksAsync(string target, string body)
    {
        using var request = new HttpRequestMessage(HttpMethod.Post, _site + target) { Content = new StringContent(body), Headers = { TransferEncodingChunked = true } };
        using HttpResponseMessage answer = await _client.SendAsync(request);
        return await answer.Content.ReadAsStringAsync();
    }

    private async Task StartApacheAsync()
    {
        int port = FreePort();
        _site = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{port}");
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "apache")).FullName;
        string configuration = Path.Combine(folder, "apache.conf");
        string block = (await CommandProcess.RunAsync("config", "apache", File)).Output
            .Replace("*:80", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}"), StringComparison.Ordinal)
            .Replace("/var/www/html", Root, StringComparison.Ordinal);
        await System.IO.File.WriteAllTextAsync(configuration, $"""
            ServerRoot "{folder}"
            DefaultRuntimeDir "{folder}"
            PidFile "{folder}/pid"
            ErrorLog "{folder}/error.log"
            ServerName localhost
            {(Environment.IsPrivilegedProcess ? "User #65534\nGroup #65534" : "")}
            Listen 127.0.0.1:{port}
            {string.Join('\n', ((string[])["mpm_event", "authz_core", "dir", "proxy", "proxy_fcgi"]).Select(static name => $"LoadModule {name}_module {ApacheProgram.Modules}/mod_{name}.so"))}
            {block}
            """);
        var program = new ApacheProgram();
        var start = new ProcessStartInfo(FrontEndProcess.Find("apache2", program.Places), program.Arguments(folder, configuration));
        _processes.Add(await FrontEndProcess.StartAsync(start, new IPEndPoint(IPAddress.Loopback, port)));
    }
}
