// An application that shuts down what the daemon listens on for it (shutdown(2) is of the socket, and so of everybody who has it): nobody gets in any more, while its processes are well.

using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private async Task ShutAsync(string place)
    {
        using var answer = await _client.PostAsync($"{_blog}/shut/{place}", content: null);
        Assert.True(answer.IsSuccessStatusCode);
    }

    // On a connection of its own.
    private static async Task<string> TitleAsync(string address)
    {
        using var client = new HttpClient();
        return await client.GetStringAsync(address + "/title");
    }

    private static async Task<bool> IsRefusedAsync(string path)
    {
        using var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(path));
            return false;
        }
        catch (SocketException)
        {
            return true;
        }
    }

    private static async Task<string> ModeAsync(string path)
    {
        await using var stat = CommandProcess.StartProgram("stat", "-c", "%a", path);
        Assert.Equal(0, await stat.WaitForExitAsync());
        return stat.Output;
    }

    private async Task<string[]> OpenedAgainAsync() =>
        [.. AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Select(static happened => happened.GetProperty("what").GetString()!).Where(static what => what.Contains("shut down", StringComparison.Ordinal))];

    [Theory]
    [InlineData("reload")]
    [InlineData("restart")]
    public async Task An_address_that_its_processes_have_shut_down_is_opened_anew_for_the_next(string order)
    {
        Write(App("shop", $"{_shop};{_blog}", """ "environment": { "TITLE": "A shop" } """));
        await StartAsync();
        await ShutAsync(_shop[(_shop.LastIndexOf(':') + 1)..]);
        await Assert.ThrowsAsync<HttpRequestException>(() => TitleAsync(_shop));

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync(order, "shop"));

        Assert.Equal("A shop", await TitleAsync(_shop));
        Assert.Equal("A shop", await TitleAsync(_blog));
        Assert.Equal([$"{_shop} had been shut down by its processes, and is opened anew"], await OpenedAgainAsync());
    }

    [Fact]
    public async Task A_Unix_socket_that_its_processes_have_shut_down_is_opened_anew_with_the_mode_that_it_had()
    {
        Write(App("shop", $"http://unix:{Socket}?mode=626;{_blog}"));
        await StartAsync();
        await ShutAsync("shop.sock");
        Assert.True(await IsRefusedAsync(Socket));

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));

        Assert.False(await IsRefusedAsync(Socket));
        Assert.Equal("626\n", await ModeAsync(Socket));
        Assert.Equal([$"http://unix:{Socket} had been shut down by its processes, and is opened anew"], await OpenedAgainAsync());
        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        Assert.False(System.IO.File.Exists(Socket));
    }

    // It need not be told to.
    [Fact]
    public async Task A_process_that_is_put_in_the_place_of_another_listens_where_that_one_has_shut_the_address_down()
    {
        Write(App("shop", $"{_shop};{_blog}", """ "environment": { "TITLE": "A shop" } """));
        await StartAsync();
        int before = ProcessesOf("shop", await StatusAsync()).Single();
        await ShutAsync(_shop[(_shop.LastIndexOf(':') + 1)..]);

        Kill(before);

        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        Assert.Equal("A shop", await TitleAsync(_shop));
    }

    // Somebody else has it by now.
    [Fact]
    public async Task Where_the_address_cannot_be_opened_anew_the_sentence_says_what_to_do_and_the_generation_before_goes_on()
    {
        Write(App("shop", $"{_shop};{_blog}"));
        await StartAsync();
        await ShutAsync(_shop[(_shop.LastIndexOf(':') + 1)..]);
        using var other = new TcpListener(System.Net.IPAddress.Loopback, new Uri(_shop).Port);
        other.Start();

        var reload = await DoAsync("reload", "shop");

        Assert.Equal(1, reload.ExitCode);
        Assert.StartsWith($"millrace: shop: {_shop} has been shut down by its processes, and cannot be opened anew: 127.0.0.1:", reload.Error, StringComparison.Ordinal);
        Assert.EndsWith(" Reload the application then.\n", reload.Error, StringComparison.Ordinal);
        Assert.Equal("", await TitleAsync(_blog));
        other.Stop();
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal("", await TitleAsync(_shop));
    }
}
