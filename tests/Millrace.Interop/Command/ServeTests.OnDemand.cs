// Applications that are started by whoever comes, and stopped when nobody has come for a while. Connections that are kept stay open over it.

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task An_application_on_demand_is_started_by_its_first_visitor_and_stopped_when_nobody_comes()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"onDemand\": true", "\"idle\": \"2s\""), App("blog", _blog, "\"onDemand\": true"));
        await StartAsync(waitFor: "blog: waits for its first visitor");
        await WaitForStatusAsync("shop", "idle");
        Assert.Empty(ProcessesOf("shop", await StatusAsync()));

        // Over a connection of each protocol that is kept over the times in which there is no process.
        using var http = await ConnectAsync();
        await using var stream = new NetworkStream(http);
        using var reader = new StreamReader(stream);
        string before = await PostAsync(stream, reader, "GET /process");
        for (int i = 0; i < 3; i++)
        {
            await WaitForStatusAsync("shop", "idle");
            await WaitForAsync(() => Task.FromResult(!Directory.Exists("/proc/" + before)));
            string now = await PostAsync(stream, reader, "GET /process");
            Assert.NotEqual(before, now);
            before = now;
            Assert.Equal((0, "", ""), await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket, "/title", "--body-only"));
        }

        // Who only leaves starts nothing.
        await WaitForStatusAsync("shop", "idle");
        http.Close();
        await Task.Delay(500);
        Assert.Equal("idle", AppOf("shop", await StatusAsync()).GetProperty("state").GetString());
        Assert.Equal("idle", AppOf("blog", await StatusAsync()).GetProperty("state").GetString());
    }

    [Fact]
    public async Task A_request_that_takes_longer_than_idle_is_not_cut_and_its_application_goes_on()
    {
        Write(App("shop", _shop, "\"onDemand\": true", "\"idle\": \"1s\""));
        await StartAsync(waitFor: "shop: waits");
        string process = await _client.GetStringAsync(_shop + "/process");
        using var socket = await ConnectAsync();
        await using var stream = new NetworkStream(socket);
        using var reader = new StreamReader(stream);
        await stream.WriteAsync(Encoding.ASCII.GetBytes("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"));
        for (int i = 0; i < 6; i++)
        {
            await Task.Delay(700);
            await stream.WriteAsync(Encoding.ASCII.GetBytes("x"));
        }
        Assert.Equal("xxxxxx", await ReadAsync(reader, "slow"));
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        await WaitForStatusAsync("shop", "idle");
    }

    // Each client comes again and again, with pauses about as long as the application stays: most often in the very moment in which it is stopped.
    [Fact]
    public async Task Nobody_is_lost_who_comes_while_the_application_is_being_stopped()
    {
        Write(App("shop", _shop, "\"onDemand\": true", "\"idle\": \"1s\"").Replace("\"health\": \"/health\", ", "", StringComparison.Ordinal));
        await StartAsync(waitFor: "shop: waits");
        using var stop = new CancellationTokenSource(TimeSpan.FromSeconds(14));      // eight pauses and a start
        string[][] processes = await Task.WhenAll(Enumerable.Range(0, 2).Select(client => Task.Run(async () =>
        {
            List<string> seen = [];
            using var socket = await ConnectAsync();
            await using var stream = new NetworkStream(socket);
            using var reader = new StreamReader(stream);
            for (int i = 0; !stop.IsCancellationRequested; i++)
            {
                seen.Add(await PostAsync(stream, reader, "GET /process"));
                await Task.Delay(1_090 + (i % 8 * 20), CancellationToken.None);
            }
            return seen.ToArray();
        })));
        Assert.True(processes.SelectMany(static each => each).Distinct().Count() > 1, "it was never stopped");
    }

    [Fact]
    public async Task An_application_on_demand_that_does_not_start_answers_503()
    {
        Write(App("shop", _shop, "\"onDemand\": true", """ "environment": { "FAULT": "ends" } """));
        await StartAsync(waitFor: "shop: waits");

        using var answer = await _client.GetAsync(_shop + "/title");

        Assert.Equal(HttpStatusCode.ServiceUnavailable, answer.StatusCode);
        Assert.Equal("The process ended with exit code 3 before it listened.", AppOf("shop", await StatusAsync()).GetProperty("reason").GetString());
    }

    [Fact]
    public async Task What_is_asked_of_an_application_that_is_idle_is_done()
    {
        Write(App("shop", _shop, "\"onDemand\": true", "\"idle\": \"1s\""));
        await StartAsync(waitFor: "shop: waits");
        using var kept = await ConnectAsync();
        await using var stream = new NetworkStream(kept);
        using var reader = new StreamReader(stream);
        Assert.Equal("", await PostAsync(stream, reader, "GET /title"));
        await WaitForStatusAsync("shop", "idle");

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop"));
        Assert.StartsWith("<!DOCTYPE", await PostAsync(stream, reader, "GET /title", "503 Service Unavailable"), StringComparison.Ordinal);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("start", "shop"));
        Assert.Equal("", await PostAsync(stream, reader, "GET /title"));
        await WaitForStatusAsync("shop", "idle");

        Write(App("shop", _shop, "\"onDemand\": true", "\"idle\": \"1s\"", """ "environment": { "TITLE": "new" } """));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal("idle", AppOf("shop", await StatusAsync()).GetProperty("state").GetString());
        Assert.Equal("new", await PostAsync(stream, reader, "GET /title"));
        await WaitForStatusAsync("shop", "idle");

        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        Assert.Equal("", await reader.ReadToEndAsync());
        await Assert.ThrowsAsync<HttpRequestException>(() => _client.GetAsync(_shop + "/title"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("restart", "shop"));
    }

    // More than are kept, which nobody uses: those beyond are closed, and the others are none the worse.
    [Fact]
    public async Task Connections_without_an_end_cost_the_daemon_no_more_than_it_keeps()
    {
        Write(App("shop", _shop, "\"onDemand\": true", "\"idle\": \"2s\""));
        var daemon = await StartAsync(waitFor: "shop: waits");
        int before = Directory.GetFiles($"/proc/{daemon.Id}/fd").Length;
        List<Socket> clients = [];
        for (int i = 0; i < 400; i++)
        {
            clients.Add(await ConnectAsync());
        }
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Any(static happened => happened.GetProperty("what").GetString()!.StartsWith("nobody has come", StringComparison.Ordinal)));
        await WaitForStatusAsync("shop", "idle");

        // The daemon's own, over which it asked for the application's health, may be one of those that are kept.
        await WaitForAsync(() => Task.FromResult(clients.Count(static client => client.Poll(0, SelectMode.SelectRead)) is >= 400 - 256 and <= 400 - 254));
        Assert.InRange(Directory.GetFiles($"/proc/{daemon.Id}/fd").Length, before + 200, before + 300);

        var open = clients.First(static client => !client.Poll(0, SelectMode.SelectRead));
        await using var stream = new NetworkStream(open);
        using var reader = new StreamReader(stream);
        Assert.Equal("", await PostAsync(stream, reader, "GET /title"));
        clients.ForEach(static client => client.Dispose());
        await WaitForAsync(() => Task.FromResult(Directory.GetFiles($"/proc/{daemon.Id}/fd").Length < before + 60));
    }

    [Fact]
    public async Task At_a_shared_address_the_first_visitor_starts_it_as_well()
    {
        Write(App("blog", _blog));
        string front = FreeAddress();
        string shop = App("shop", _shop, "\"onDemand\": true", "\"idle\": \"2s\"", "\"on\": \"front\", \"path\": \"/shop\"");
        System.IO.File.WriteAllText(File, $"{{ \"control\": \"run/control.sock\", \"snapshots\": \"snapshots\", \"shared\": {{ \"front\": \"{front}\" }}, \"apps\": [ {shop} ] }}");
        await StartAsync(waitFor: "front: generation 1 serves");
        for (int i = 0; i < 2; i++)
        {
            await WaitForStatusAsync("shop", "idle");
            Assert.Equal("/shop|/base|/shop/base", await _client.GetStringAsync(front + "/shop/base"));
        }
    }

    private async Task<Socket> ConnectAsync()
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]));
        return socket;
    }

    private static async Task<string> PostAsync(Stream stream, StreamReader reader, string request, string status = "200 OK")
    {
        await stream.WriteAsync(Encoding.ASCII.GetBytes($"{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        return await ReadAsync(reader, request, status).WaitAsync(Patience);
    }
}
