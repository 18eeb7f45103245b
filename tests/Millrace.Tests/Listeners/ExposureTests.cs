// Who can reach a server: where it listens when nobody says, how a Unix socket comes to be, and what it answers by itself.

using System.Net;
using System.Net.Sockets;
using System.Runtime.Versioning;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Hosting;
using Millrace.Tests.Simulation;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Listeners;

[SupportedOSPlatform("linux")]
public sealed class ExposureTests
{
    [Fact]
    public async Task Hostile_72_An_application_without_an_address_does_not_listen_at_all()
    {
        WebApplicationBuilder builder = WebApplication.CreateEmptyBuilder(new WebApplicationOptions());
        builder.Logging.ClearProviders();
        builder.WebHost.UseMillrace();
        await using WebApplication app = builder.Build();
        var refusal = await Assert.ThrowsAsync<MillraceStartException>(() => app.StartAsync(TestContext.Current.CancellationToken));
        Assert.Contains("No address to listen on", refusal.Message, StringComparison.Ordinal);
    }

    // systemd gives a socket mode 0666 unless its unit says otherwise (systemd.socket(5)).
    [Theory]
    [InlineData("fastcgi", "666", "755", true)]
    [InlineData("fastcgi", "602", "701", true)]
    [InlineData("fastcgi", "660", "755", false)]
    [InlineData("fastcgi", "666", "770", false)]
    [InlineData("http", "666", "755", false)]
    public async Task Hostile_72_An_inherited_socket_that_everybody_may_open_is_warned_of(string scheme, string mode, string directoryMode, bool isWarnedOf)
    {
        DirectoryInfo directory = Directory.CreateTempSubdirectory("millrace-test-");
        try
        {
            string path = Path.Combine(directory.FullName, "a.sock");
            using var opened = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            opened.Bind(new UnixDomainSocketEndPoint(path));
            opened.Listen();
            File.SetUnixFileMode(path, (UnixFileMode)Convert.ToInt32(mode, 8));
            directory.UnixFileMode = (UnixFileMode)Convert.ToInt32(directoryMode, 8);
            int passed = SystemCalls.Fcntl((int)opened.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
            using var log = new CollectedLog();
            await using (await MillraceServer.StartAsync($"{scheme}://fd:{passed}", static (_, response) => response.WriteText("hello"), logger: log.CreateLogger("Millrace")))
            {
            }

            Assert.Equal(isWarnedOf, log.Lines.Any(line => line.Contains($"fd:{passed} is the socket {path}, which every user of this machine may open", StringComparison.Ordinal)));
        }
        finally
        {
            directory.Delete(recursive: true);
        }
    }

    [Fact]
    public async Task An_inherited_socket_that_is_given_twice_is_refused_and_left_open()
    {
        using var opened = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        opened.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        opened.Listen();
        int passed = SystemCalls.Fcntl((int)opened.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
        var refusal = await Assert.ThrowsAsync<MillraceStartException>(() => MillraceServer.StartAsync(
            $"http://fd:{passed};fastcgi://fd:{passed}", static (_, response) => response.WriteText("hello")));

        Assert.Contains($"fastcgi://fd:{passed} is a descriptor that is given twice", refusal.Message, StringComparison.Ordinal);
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await client.ConnectAsync(opened.LocalEndPoint!, TestContext.Current.CancellationToken);
    }

    [Theory]
    [InlineData("fastcgi", "?allow=10.0.0.5")]
    [InlineData("http", "")]
    public async Task An_inherited_socket_that_other_machines_can_reach_is_warned_of(string scheme, string options)
    {
        using var opened = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        opened.Bind(new IPEndPoint(IPAddress.Any, 0));
        opened.Listen();
        int passed = SystemCalls.Fcntl((int)opened.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
        using var log = new CollectedLog();
        await using (await MillraceServer.StartAsync($"{scheme}://fd:{passed}{options}", static (_, response) => response.WriteText("hello"), logger: log.CreateLogger("Millrace")))
        {
        }

        Assert.Contains(log.Lines, line => line.Contains($"fd:{passed} can be reached from other machines", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(0, true, true)]
    [InlineData(1000, false, true)]
    [InlineData(1000, false, false)]
    public void Hostile_72_What_run_listens_on_by_default_is_the_machine_s_own(uint user, bool runIsWritable, bool hasWebGroup)
    {
        WebServerGroup? group = hasWebGroup ? new WebServerGroup("root", 0) : null;
        SocketPlace place = DefaultAddress.Choose("app", new UserFacts(user, runIsWritable, group, RuntimeDirectory: null));
        foreach (string text in new ChosenAddresses(place, HttpIsFree: true).List)
        {
            ListenAddress address = ListenAddress.Parse(text);
            Assert.True(address.IsLocal);
            Assert.True(address.Kind == EndPointKind.Unix || IPAddress.IsLoopback(address.Address!));
        }
    }

    [Theory]
    [InlineData("fastcgi://0.0.0.0:9000")]
    [InlineData("fastcgi://[::]:9000")]
    [InlineData("fastcgi://*:9000")]
    public void Hostile_72_FastCGI_for_other_machines_needs_a_list_of_them(string address) =>
        Assert.Throws<FormatException>(() => ListenAddress.Parse(address));

    [Theory]
    [InlineData("1.2.3.4", "::ffff:1.2.3.4", true)]
    [InlineData("::ffff:1.2.3.4", "1.2.3.4", true)]
    [InlineData("10.0.0.0%2F8", "::ffff:10.9.8.7", true)]
    [InlineData("10.0.0.0%2F8", "::ffff:11.9.8.7", false)]
    [InlineData("::1", "127.0.0.1", false)]
    public void Hostile_73_An_IPv4_address_is_the_same_inside_an_IPv6_one(string listed, string peer, bool allowed) =>
        Assert.Equal(allowed, ListenAddress.Parse("fastcgi://0.0.0.0:9000?allow=" + listed).Allow!.Contains(IPAddress.Parse(peer)));

    [Theory]
    [InlineData("")]
    [InlineData("localhost")]
    [InlineData("10.0.0.1,")]
    [InlineData("10.0.0.0%2F33")]
    [InlineData("010.0.0.1")]
    [InlineData("10.1")]
    public void Hostile_73_A_list_that_cannot_be_read_lets_nobody_in(string list) =>
        Assert.Throws<FormatException>(() => ListenAddress.Parse("fastcgi://0.0.0.0:9000?allow=" + list));

    [Fact]
    public void Hostile_74_A_socket_that_is_alive_is_left_to_its_owner_and_a_stale_one_replaced()
    {
        using var folder = new SocketFolder();
        string address = folder.NewAddress();
        string path = address["fastcgi://unix:".Length..].Split('?')[0];
        using (ListenSocket first = Open(address))
        {
            FileFacts before = FileFacts.At(path, out _)!.Value;
            Assert.Throws<MillraceStartException>(() => Open(address));
            Assert.True(before.IsSocket);
            using Socket client = Connect(path);
            Assert.True(client.Connected);
        }

        LeaveStale(path);
        Assert.Throws<SocketException>(() => Connect(path));
        using ListenSocket second = Open(address);
        using Socket other = Connect(path);
        Assert.True(other.Connected);
    }

    [Fact]
    public void Hostile_74_A_file_that_is_no_socket_is_left_alone()
    {
        using var folder = new SocketFolder();
        string address = folder.NewAddress();
        string path = address["fastcgi://unix:".Length..].Split('?')[0];
        File.WriteAllText(path, "precious");
        Assert.Throws<MillraceStartException>(() => Open(address));
        Assert.Equal("precious", File.ReadAllText(path));
    }

    [Fact]
    public void Hostile_74_A_socket_is_never_open_to_others_than_asked()
    {
        using var folder = new SocketFolder();
        string address = folder.NewAddress();
        string path = address["fastcgi://unix:".Length..].Split('?')[0];
        const UnixFileMode Others = UnixFileMode.OtherRead | UnixFileMode.OtherWrite | UnixFileMode.OtherExecute;
        for (int i = 0; i < 50; i++)
        {
            using var stop = new CancellationTokenSource();
            UnixFileMode seen = UnixFileMode.None;
            var watcher = new Thread(() =>
            {
                while (!stop.IsCancellationRequested)
                {
                    seen |= FileFacts.At(path, out _)?.Mode ?? UnixFileMode.None;
                }
            });
            watcher.Start();
            using (Open(address))
            {
                Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead | UnixFileMode.GroupWrite, FileFacts.At(path, out _)!.Value.Mode);
            }

            stop.Cancel();
            watcher.Join();
            Assert.Equal(UnixFileMode.None, seen & Others);
        }
    }

    [Theory]
    [InlineData("/status")]
    [InlineData("/server-status")]
    [InlineData("/nginx_status")]
    [InlineData("/fpm-status")]
    [InlineData("/metrics")]
    [InlineData("/health")]
    [InlineData("/.well-known/millrace")]
    [InlineData("/_millrace/status")]
    public void Hostile_75_No_path_is_the_server_s_own(string path) => SimulationThread.Run(() =>
    {
        int asked = 0;
        var simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Options = new MillraceOptions { Loops = 1 },
            HttpIsTcp = true,
            Handler = _ => new Millrace.Handlers.DelegateHandler((request, response) =>
            {
                asked++;
                Assert.Equal(path, request.Path);
                response.StatusCode = 404;
            }),
        });
        var front = new FrontEnd(simulation.World.Connect(simulation.Listener));
        front.Send(Wire.Request(path));
        var browser = new SimulatedBrowser(simulation.World.Connect(simulation.HttpListener!));
        browser.Await(default);
        browser.Send(System.Text.Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        simulation.Settle();
        foreach (SimulatedSocket socket in new[] { front.Socket, browser.Socket })
        {
            socket.Deliver(int.MaxValue);
            simulation.Settle();
        }

        front.Read();
        browser.Read();
        Assert.Null(simulation.Failure);
        Assert.Equal(2, asked);
        Assert.Equal((404, 404), (Assert.Single(front.Ended).Status, Assert.Single(browser.Responses).Status));
    });

    private static ListenSocket Open(string address) => Assert.Single(ListenSockets.Open(ListenAddress.Parse(address), 1));

    private static Socket Connect(string path)
    {
        var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(path));
        return client;
    }

    // As a server that was killed leaves it: the file is there, nobody listens.
    private static void LeaveStale(string path)
    {
        string aside = path + "-aside";
        using (var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            socket.Bind(new UnixDomainSocketEndPoint(path));
            socket.Listen();
            File.Move(path, aside);
        }

        File.Move(aside, path);
    }
}
