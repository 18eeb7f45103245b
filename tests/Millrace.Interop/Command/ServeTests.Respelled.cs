// A file that says something else of the same place: another protocol, or the port on other addresses of the machine.

using System.Globalization;
using System.Net;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task An_address_may_be_written_otherwise_and_go_to_another_application_otherwise()
    {
        int port = new Uri(_shop).Port;
        string At(string place) => string.Create(CultureInfo.InvariantCulture, $"{place}:{port}");
        Write(App("shop", $"{_shop};fastcgi://unix:{Socket}", Title("shop")), App("blog", _blog, Title("blog")));
        await StartAsync();
        string blog = await _client.GetStringAsync(_blog + "/process");

        foreach (string url in (string[])[At("fastcgi://127.0.0.1"), At("http://*"), At("http://localhost"), At("http://0.0.0.0"), At("fastcgi://localhost")])
        {
            Write(App("shop", $"{url};{(url.StartsWith("http:", StringComparison.Ordinal) ? "fastcgi" : "http")}://unix:{Socket}", Title("shop")), App("blog", _blog, Title("blog")));
            Assert.Equal((0, $"{File}: 1 of 2 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
            Assert.Equal((0, "shop\n", ""), await CommandProcess.RunAsync("get", url.Replace("*", "127.0.0.1", StringComparison.Ordinal).Replace("0.0.0.0", "127.0.0.1", StringComparison.Ordinal), "/title", "--body-only"));
        }

        // What stays another's is refused, and nothing has ended for it.
        string taken = string.Create(CultureInfo.InvariantCulture, $"http://*:{new Uri(_blog).Port}");
        Write(App("shop", taken, Title("shop")), App("blog", _blog, Title("blog")));
        Assert.Equal((1, "", $"millrace: shop: {taken} cannot be listened on beside {_blog}, which is blog's. Choose another port.\n"), await DoAsync("reload"));
        Assert.Equal((0, "shop\n", ""), await CommandProcess.RunAsync("get", At("fastcgi://127.0.0.1"), "/title", "--body-only"));
        Assert.Equal(blog, await _client.GetStringAsync(_blog + "/process"));

        // From one that moves, and from one that goes.
        Write(App("shop", taken, Title("shop")), App("blog", At("http://*"), Title("blog")));
        Assert.Equal((0, $"{File}: 2 of 2 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal(("blog", "shop"), (await _client.GetStringAsync(_shop + "/title"), await _client.GetStringAsync(_blog + "/title")));
        Write(App("blog", _blog, Title("blog")));
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 1 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal("blog", await _client.GetStringAsync(_blog + "/title"));

        static string Title(string title) => $"\"environment\": {{ \"TITLE\": \"{title}\" }}";
    }

    // As /var/run leads to /run.
    [Fact]
    public async Task A_Unix_socket_may_be_named_by_another_way_to_its_folder()
    {
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "sockets")).FullName;
        string link = Path.Combine(_directory.Path, "link");
        Directory.CreateSymbolicLink(link, folder);
        Write(App("shop", $"http://unix:{folder}/s"));
        await StartAsync();

        Write(App("shop", $"http://unix:{link}/s"));
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));

        Assert.False(await IsRefusedAsync(folder + "/s"));
    }

    // The router leads to the one before until it has heard of the other.
    [Fact]
    public async Task An_application_at_a_shared_address_that_gets_another_name_is_there_all_the_time()
    {
        WriteShared(On("blog"), On("wiki", "\"path\": \"/wiki\"", "\"environment\": { \"TITLE\": \"Wiki\" }"));
        await StartAsync();
        using var ending = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 4).Select(_ => Task.Run(async () =>
        {
            int asked = 0;
            for (; !ending.IsCancellationRequested; asked++)
            {
                using var answer = await SendAsync("x", "/wiki/title");
                Assert.Equal((HttpStatusCode.OK, "Wiki"), (answer.StatusCode, await answer.Content.ReadAsStringAsync()));
                await Task.Delay(5);
            }
            return asked;
        })).ToArray();

        WriteShared(On("blog"), On("pages", "\"path\": \"/wiki\"", "\"environment\": { \"TITLE\": \"Wiki\" }"));
        Assert.Equal((0, $"{File}: 2 of 3 applications deployed, 1 taken away\n", ""), await DoAsync("reload"));
        await Task.Delay(500);
        await ending.CancelAsync();
        Assert.All(await Task.WhenAll(clients), static asked => Assert.InRange(asked, 1, int.MaxValue));
        await WaitForAsync(() => Task.FromResult(!System.IO.File.Exists(Path.Combine(Path.GetDirectoryName(Control)!, "shared/wiki.app.sock"))));
        Assert.Equal("Wiki", await AskAsync("x", "/wiki/title"));
    }
}
