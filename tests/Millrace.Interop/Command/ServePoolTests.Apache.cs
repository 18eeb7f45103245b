// A pool of the file behind a real Apache with the configuration that `millrace config` prints, which is what php-fpm has there: SetHandler "proxy:unix:...|fcgi://...".

using System.Diagnostics;
using System.Globalization;
using System.Net;
using Millrace.Interop.FrontEnds;

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
