// The file of an application's Unix socket that is not there any more: it was removed by somebody, or by the application itself, which would listen there with Kestrel.

using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private async Task<string[]> MissedAsync() =>
        [.. AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Select(static happened => happened.GetProperty("what").GetString()!).Where(static what => what.Contains("removed by somebody", StringComparison.Ordinal))];

    // On a connection of its own.
    private async Task<string> ProcessAtSocketAsync()
    {
        using var client = new HttpClient(new SocketsHttpHandler
        {
            ConnectCallback = async (_, ct) =>
            {
                var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                await socket.ConnectAsync(new UnixDomainSocketEndPoint(Socket), ct);
                return new NetworkStream(socket, ownsSocket: true);
            },
        });
        return await client.GetStringAsync("http://shop/process").WaitAsync(Patience);
    }

    [Theory]
    [InlineData("reload")]
    [InlineData("restart")]
    [InlineData("crash")]
    public async Task A_Unix_socket_whose_file_somebody_has_removed_is_opened_anew(string order)
    {
        Write(App("shop", $"http://unix:{Socket}?mode=626", "\"instances\": 2"));
        await StartAsync();
        System.IO.File.Delete(Socket);
        if (order == "crash")
        {
            Kill(ProcessesOf("shop", await StatusAsync()).First());
            await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        }
        else
        {
            Assert.Equal((0, "shop: serving\n", ""), await DoAsync(order, "shop"));
        }

        Assert.Contains(int.Parse(await ProcessAtSocketAsync(), null), ProcessesOf("shop", await StatusAsync()));
        Assert.Equal("626\n", await ModeAsync(Socket));
        Assert.Equal([$"http://unix:{Socket} had been removed by somebody, and is opened anew"], await MissedAsync());

        // Those that ran before the crash listen there as well.
        if (order == "crash")
        {
            Kill(ProcessesOf("shop", await StatusAsync()).Last());
            _ = await ProcessAtSocketAsync();
        }
        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        Assert.False(System.IO.File.Exists(Socket));
    }

    [Fact]
    public async Task An_application_that_removes_the_file_at_its_start_is_found_there_all_the_same()
    {
        Write(App("shop", $"http://unix:{Socket}", $$""" "environment": { "REMOVES": "{{Socket}}" } """));
        await StartAsync();

        string first = await ProcessAtSocketAsync();
        Assert.Equal(ProcessesOf("shop", await StatusAsync()).Single().ToString(System.Globalization.CultureInfo.InvariantCulture), first);
        foreach (string order in (string[])["reload", "restart"])
        {
            Assert.Equal((0, "shop: serving\n", ""), await DoAsync(order, "shop"));
            string next = await ProcessAtSocketAsync();
            Assert.NotEqual(first, next);
            first = next;
        }
        Kill(int.Parse(first, null));
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        Assert.NotEqual(first, await ProcessAtSocketAsync());
        Assert.Equal(4, (await MissedAsync()).Length);
    }

    // Nothing of it has ended for that, and the other address goes on.
    [Fact]
    public async Task Where_another_program_has_taken_the_place_of_the_socket_a_reload_says_so_and_leaves_it()
    {
        Write(App("shop", $"http://unix:{Socket};{_shop}"));
        await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        System.IO.File.Delete(Socket);
        using var other = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        other.Bind(new UnixDomainSocketEndPoint(Socket));
        other.Listen();

        var reload = await DoAsync("reload", "shop");

        Assert.Equal(1, reload.ExitCode);
        Assert.StartsWith($"millrace: shop: http://unix:{Socket} has been removed by somebody, and cannot be opened anew: ", reload.Error, StringComparison.Ordinal);
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        Kill(int.Parse(process, null));
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        using var fresh = new HttpClient();
        Assert.NotEqual(process, await fresh.GetStringAsync(_shop + "/process"));
    }
}
