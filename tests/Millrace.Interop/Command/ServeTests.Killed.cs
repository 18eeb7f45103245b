// A process that is killed under load takes with it what was under way in it, and nothing else.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private const int Kills = 4;         // with 5 within a minute it is held, as one that crashes whatever it does
    private const int ClientsOfEach = 16;
    private const int TriesOfNginx = 8;

    [Fact]
    public async Task A_process_that_is_killed_takes_with_it_what_was_under_way_in_it_alone()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", Titled("A shop")), App("blog", _blog, Titled("A blog")));
        await StartAsync();
        using var stop = new CancellationTokenSource();
        var shop = Enumerable.Range(0, ClientsOfEach).Select(_ => Task.Run(() => AskUntilAsync(IPEndPoint.Parse(_shop["http://".Length..]), "A shop", stop.Token))).ToArray();
        var blog = Enumerable.Range(0, ClientsOfEach).Select(_ => Task.Run(() => AskUntilAsync(IPEndPoint.Parse(_blog["http://".Length..]), "A blog", stop.Token))).ToArray();

        HashSet<int> killed = [];
        for (int i = 0; i < Kills; i++)
        {
            int process = ProcessesOf("shop", await StatusAsync()).Single();
            Assert.True(killed.Add(process));
            Assert.Equal(process.ToString(CultureInfo.InvariantCulture), await _client.GetStringAsync(_shop + "/process"));      // it serves: a client whose request the one before took along has his next one answered before this one takes another
            await Task.Delay(200, CancellationToken.None);
            Kill(process);
            await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Any(id => id != process) && AppOf("shop", await StatusAsync()).GetProperty("state").GetString() == "serving");
        }
        await stop.CancelAsync();
        (int Answers, int Lost)[] ofShop = await Task.WhenAll(shop), ofBlog = await Task.WhenAll(blog);

        TestContext.Current.TestOutputHelper?.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{ofShop.Sum(static its => its.Answers)} answers, {ofShop.Sum(static its => its.Lost)} lost in {Kills} kills; {ofBlog.Sum(static its => its.Answers)} of the other application"));
        Assert.All(ofShop, static its => Assert.InRange(its.Lost, 0, Kills));       // each client has one request under way
        Assert.InRange(ofShop.Sum(static its => its.Lost), 1, Kills * ClientsOfEach);
        Assert.All(ofBlog, static its => Assert.Equal(0, its.Lost));
        Assert.All(ofBlog, static its => Assert.InRange(its.Answers, 100, int.MaxValue));
    }

    // The socket stands there as often as nginx is to try it: a request that comes as the process dies may get one kept connection of that process after the other.
    [Theory]
    [InlineData(UpstreamConnections.KeptAlive)]
    [InlineData(UpstreamConnections.ClosedAfterEachRequest)]
    public async Task Behind_nginx_no_GET_is_lost_when_one_of_two_processes_is_killed(UpstreamConnections connections)
    {
        Write(App("shop", $"fastcgi://unix:{Socket}", Titled("A shop") + ", \"instances\": 2"));
        await StartAsync();
        await using FrontEndServer nginx = await FrontEndServer.StartAsync(
            new NginxProgram(), new Upstream(new Combination(AppProtocol.FastCgi, Transport.Unix, connections), [.. Enumerable.Repeat($"fastcgi://unix:{Socket}", TriesOfNginx)]));
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, ClientsOfEach).Select(_ => Task.Run(() => AskUntilAsync(nginx.Buffered, "A shop", stop.Token))).ToArray();

        for (int i = 0; i < Kills; i++)
        {
            int process = ProcessesOf("shop", await StatusAsync()).First();
            await Task.Delay(200, CancellationToken.None);
            Kill(process);
            await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Count(id => id != process) == 2);
        }
        await stop.CancelAsync();
        (int Answers, int Lost)[] asked = await Task.WhenAll(clients);

        Assert.All(asked, static its => Assert.Equal(0, its.Lost));
        Assert.All(asked, static its => Assert.InRange(its.Answers, 100, int.MaxValue));
    }

    private static string Titled(string title) => $$""" "environment": { "TITLE": "{{title}}" } """;

    // One request after the other, over a connection that is kept. What is lost is counted, and the one after it must be answered; a wrong answer ends the test.
    private static async Task<(int Answers, int Lost)> AskUntilAsync(IPEndPoint way, string title, CancellationToken stop)
    {
        int answers = 0, lost = 0;
        bool mayBeLost = true;
        byte[] request = Encoding.ASCII.GetBytes("GET /title HTTP/1.1\r\nHost: a\r\n\r\n");
        while (!stop.IsCancellationRequested)
        {
            using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            await socket.ConnectAsync(way, CancellationToken.None);
            await using var stream = new NetworkStream(socket);
            using var reader = new StreamReader(stream, Encoding.ASCII);
            try
            {
                while (!stop.IsCancellationRequested)
                {
                    await stream.WriteAsync(request, CancellationToken.None);
                    string line = await reader.ReadLineAsync(CancellationToken.None) ?? throw new IOException("the connection has ended");
                    Assert.Equal("HTTP/1.1 200 OK", line);
                    string answer = await ReadRestAsync(reader);
                    Assert.Equal(title, answer);
                    answers++;
                    mayBeLost = true;
                    await Task.Delay(5, CancellationToken.None);
                }
            }
            catch (IOException)
            {
                Assert.True(mayBeLost, "two requests in a row were lost");
                mayBeLost = false;
                lost++;
            }
        }
        return (answers, lost);
    }
}
