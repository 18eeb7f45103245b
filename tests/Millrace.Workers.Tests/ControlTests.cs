// The control socket: what it shows, what can be done over it, whose it is, and what becomes of one that somebody has left.

using System.Net;
using System.Net.Sockets;
using System.Runtime.Versioning;
using System.Text.Json;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Workers.Control;

namespace Millrace.Workers.Tests;

[SupportedOSPlatform("linux")]
public sealed class ControlTests : IAsyncDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-control-");
    private readonly Said _said = new();
    private readonly List<IHost> _hosts = [];

    private string[] Refusals => [.. _said.All.Where(static message => message.Id == 20).Select(static message => message.Text)];

    private string At => Path.Combine(_folder.FullName, "pools.sock");

    public async ValueTask DisposeAsync()
    {
        foreach (IHost host in _hosts)
        {
            await host.StopAsync();
            await ((IAsyncDisposable)host).DisposeAsync();
        }
        _folder.Delete(recursive: true);
    }

    [Fact]
    public async Task What_a_pool_is_like_is_shown()
    {
        WorkerPool<Probe> pool = await StartAsync();
        _ = await pool.RunAsync(static (worker, _) => worker);

        PoolsStatus status = await ListAsync(At);

        Assert.Equal(Environment.ProcessId, status.Process);
        WorkerPoolStatus its = Assert.Single(status.Pools);
        Assert.Equal(("Probe", 2, 4, 1, 2), (its.Name, its.Min, its.Max, its.Calls, its.Workers.Count));
        Assert.All(its.Workers, static worker => Assert.Equal(WorkerState.Idle, worker.State));
    }

    [Fact]
    public async Task A_worker_is_killed_and_another_recycled()
    {
        WorkerPool<Probe> pool = await StartAsync();
        using var gate = new Gate();
        Task call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        int busy = pool.GetStatus().Workers.Single(static worker => worker.State == WorkerState.Busy).Id;
        int idle = pool.GetStatus().Workers.First(worker => worker.Id != busy).Id;

        Assert.Equal((HttpStatusCode.OK, $"Probe: worker {busy} has been killed, and another takes its place"), await DoAsync($"Probe/kill?worker={busy}"));
        _ = await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        Assert.Equal((HttpStatusCode.OK, $"Probe: worker {idle} ends when its call has ended, and another takes its place"), await DoAsync($"Probe/recycle?worker={idle}"));

        await Eventually.TrueAsync(() => pool.GetStatus().Ends.ContainsKey(WorkerEnd.Recycled), "it is recycled");
        Assert.Equal(1, pool.GetStatus().Ends[WorkerEnd.Killed]);
        gate.Open();
    }

    [Fact]
    public async Task A_pool_is_resized_held_released_and_swapped()
    {
        WorkerPool<Probe> pool = await StartAsync();

        Assert.Equal((HttpStatusCode.OK, "Probe: has from 3 to 5 workers"), await DoAsync("Probe/resize?min=3&max=5"));
        Assert.Equal((3, 5), (pool.GetStatus().Min, pool.GetStatus().Max));

        Assert.Equal((HttpStatusCode.OK, "Probe: is held: no worker has a call, and calls wait until it is released"), await DoAsync("Probe/hold"));
        Task<Probe> call = pool.RunAsync(static (worker, _) => worker);
        Assert.Equal(1, (await ListAsync(At)).Pools[0].Waiting);
        Assert.Equal((HttpStatusCode.OK, "Probe: is released"), await DoAsync("Probe/release"));
        _ = await call;

        Assert.Equal((HttpStatusCode.OK, "Probe: has workers of generation 2"), await DoAsync("Probe/swap"));
        Assert.Equal(2, pool.GetStatus().Generation);
    }

    [Theory]
    [InlineData("POST", "/pools/Other/hold", 409, "There is no pool Other. There are: Probe.")]
    [InlineData("POST", "/pools/Probe/kill", 409, "Which worker? Their numbers stand in the list.")]
    [InlineData("POST", "/pools/Probe/kill?worker=-1", 409, "Which worker? Their numbers stand in the list.")]
    [InlineData("POST", "/pools/Probe/kill?worker=99", 409, "Probe: there is no worker 99.")]
    [InlineData("POST", "/pools/Probe/recycle?worker=0", 409, "Probe: there is no worker 0.")]
    [InlineData("POST", "/pools/Probe/resize?min=3", 409, "How many workers? At least and at most.")]
    [InlineData("POST", "/pools/Probe/resize?min=5&max=4", 409, "Probe: ")]
    [InlineData("POST", "/pools/Probe/resize?min=1&max=1001", 409, "Probe: ")]
    [InlineData("POST", "/pools/Probe/explode", 409, "'explode' is nothing that can be done to a pool.")]
    [InlineData("GET", "/pools/Probe/kill?worker=1", 404, "GET /pools/Probe/kill is nothing that is known here.")]
    [InlineData("POST", "/pools", 404, "POST /pools is nothing that is known here.")]
    [InlineData("GET", "/", 404, "GET / is nothing that is known here.")]
    public async Task What_cannot_be_done_is_refused_with_a_sentence_and_changes_nothing(string method, string what, int status, string message)
    {
        WorkerPool<Probe> pool = await StartAsync();

        (HttpStatusCode Status, string Message) answer = await AskAsync(new HttpMethod(method), what);

        Assert.Equal(status, (int)answer.Status);
        Assert.StartsWith(message, answer.Message, StringComparison.Ordinal);
        Assert.Equal((2, 4, false), (pool.GetStatus().Min, pool.GetStatus().Max, pool.GetStatus().IsHeld));
        Assert.Empty(pool.GetStatus().Ends);
    }

    [Fact]
    public async Task A_host_that_stops_waits_for_nobody_who_waits_for_a_swap_and_leaves_no_socket()
    {
        WorkerPool<Probe> pool = await StartAsync();
        using var gate = new Gate();
        Task call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task swap = DoAsync("Probe/swap");
        await Eventually.TrueAsync(() => pool.GetStatus().Generation == 2, "the swap has begun");

        Task stop = _hosts[0].StopAsync();
        await stop.WaitAsync(Eventually.Limit);

        Assert.False(File.Exists(At));
        gate.Open();
        await call;
        _ = await Record.ExceptionAsync(() => swap);
    }

    [Fact]
    public async Task Nobody_but_its_user_can_connect()
    {
        _ = await StartAsync();

        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(At));
    }

    [Fact]
    public async Task A_socket_that_nobody_listens_on_gives_its_place_up_and_one_that_somebody_has_does_not()
    {
        using (var left = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            left.Bind(new UnixDomainSocketEndPoint(At));
        }
        File.WriteAllText(Path.Combine(_folder.FullName, "file"), "mine");
        _ = await StartAsync();
        _ = await StartAsync();
        Assert.Equal($"`millrace pool` cannot ask this process: Somebody listens on {At} already.", Assert.Single(Refusals));
        Assert.Equal(HttpStatusCode.OK, (await DoAsync("Probe/release")).Status);

        _ = await StartAsync(Path.Combine(_folder.FullName, "file"));
        Assert.Contains("cannot be made", Refusals[1], StringComparison.Ordinal);
        Assert.Equal("mine", File.ReadAllText(Path.Combine(_folder.FullName, "file")));
    }

    [Fact]
    public async Task Two_pools_of_one_name_are_told_apart_by_nobody()
    {
        _ = await StartAsync(configure: static services => services.AddProcessPool("Probe", static options => (options.Command, options.Min, options.Ready) = ("sleep", 0, ProcessReady.Starts)));

        Assert.Equal((HttpStatusCode.Conflict, "2 pools are called Probe: give each a name of its own."), await DoAsync("Probe/hold"));
        Assert.Equal(2, (await ListAsync(At)).Pools.Count);
    }

    [Fact]
    public async Task Where_no_path_is_given_the_socket_is_in_a_folder_of_the_user_s_own_and_those_of_the_dead_are_swept()
    {
        string folder = ControlSocket.DefaultFolder;
        _ = Directory.CreateDirectory(folder, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        string dead = Path.Combine(folder, "4194305.sock");     // no process has this number
        using (var left = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            left.Bind(new UnixDomainSocketEndPoint(dead));
        }

        _ = await StartAsync(isDefault: true);

        Assert.Equal("Probe", Assert.Single((await ListAsync(Path.Combine(folder, $"{Environment.ProcessId}.sock"))).Pools).Name);
        Assert.False(File.Exists(dead));
        Assert.Empty(Refusals);
    }

    private async Task<WorkerPool<Probe>> StartAsync(string? path = null, bool isDefault = false, Action<IServiceCollection>? configure = null)
    {
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddSingleton<ILoggerFactory>(_said);
        builder.Services.AddWorkerPool<Probe>(configure: static options => (options.Min, options.Max) = (2, 4));
        configure?.Invoke(builder.Services);
        builder.Services.AddPoolControl(isDefault ? null : path ?? At);
        IHost host = builder.Build();
        _hosts.Add(host);
        await host.StartAsync();
        return host.Services.GetRequiredService<WorkerPool<Probe>>();
    }

    private static HttpClient Client(string path) => new(new SocketsHttpHandler
    {
        ConnectCallback = async (_, ct) =>
        {
            var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), ct);
            return new NetworkStream(socket, ownsSocket: true);
        },
    });

    private static async Task<PoolsStatus> ListAsync(string path)
    {
        using HttpClient client = Client(path);
        return JsonSerializer.Deserialize(await client.GetStringAsync("http://pools/pools"), PoolJson.Default.PoolsStatus)!;
    }

    private Task<(HttpStatusCode Status, string Message)> DoAsync(string what) => AskAsync(HttpMethod.Post, "/pools/" + what);

    private async Task<(HttpStatusCode Status, string Message)> AskAsync(HttpMethod method, string what)
    {
        using HttpClient client = Client(At);
        using var request = new HttpRequestMessage(method, "http://pools" + what);
        using HttpResponseMessage response = await client.SendAsync(request);
        PoolAnswer answer = JsonSerializer.Deserialize(await response.Content.ReadAsStringAsync(), PoolJson.Default.PoolAnswer)!;
        Assert.Equal(response.IsSuccessStatusCode, answer.Ok);
        return (response.StatusCode, answer.Message);
    }
}
