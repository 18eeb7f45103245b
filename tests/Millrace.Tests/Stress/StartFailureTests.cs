// A server that cannot be started as a whole: the system has no thread or no descriptor for one of its loops, or for a step of its start. Nothing of it is left:
// no thread, no descriptor, no socket that somebody could wait in.

using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Millrace.Handlers;
using Millrace.Listeners;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class StartFailureTests : IDisposable
{
    private const int Loops = 4;

    private readonly SocketFolder _folder = new();
    private readonly int _descriptors = ProcessState.Descriptors();
    private readonly int _threads = ProcessState.Threads("Millrace");

    public void Dispose() => _folder.Dispose();

    private static DelegateHandler Handler => new(static (request, response) =>
    {
        response.WriteText(request.Path);
        return default;
    });

    private void LeavesNothing(string address)
    {
        Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= _descriptors), $"{ProcessState.Descriptors()} descriptors, {_descriptors} before");
        Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= _threads), $"{ProcessState.Threads("Millrace")} threads, {_threads} before");
        Assert.ThrowsAny<SocketException>(() => FastCgiPeer.Connect(address));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(Loops)]
    public async Task A_server_that_gets_no_thread_for_one_of_its_loops_says_so_and_leaves_nothing(int refused)
    {
        string address = _folder.NewAddress();
        int asked = 0;
        MillraceStartException error = Assert.Throws<MillraceStartException>(() => Engine.Start(
            ListenAddress.ParseList(address),
            Handler,
            new MillraceOptions { Loops = Loops },
            log: null,
            thread =>
            {
                if (++asked == refused)
                {
                    throw new InsufficientMemoryException();
                }

                thread.Start();
            }));
        Assert.Contains($"no thread for event loop {refused} of {Loops}", error.Message, StringComparison.Ordinal);
        LeavesNothing(address);
        await using Engine next = Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops });
        using FastCgiPeer peer = FastCgiPeer.Connect(address);
        Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task A_server_that_gets_no_descriptor_for_one_of_its_loops_says_so_and_leaves_nothing(int free)
    {
        string address = _folder.NewAddress();
        await Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops }).DisposeAsync();    // what the runtime loads is loaded
        MillraceStartException error = Assert.Throws<MillraceStartException>(() =>
        {
            using var few = new FewDescriptors(free);
            _ = Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops });
        });
        Assert.Contains("Cannot create an event queue (EMFILE", error.Message, StringComparison.Ordinal);
        LeavesNothing(address);
    }

    // One more each time, until there are enough: so each step of the start is the first to get none.
    [Theory]
    [InlineData(false, true)]
    [InlineData(false, false)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    public async Task A_server_that_gets_no_descriptor_for_a_step_of_its_start_leaves_nothing_whichever_it_is(bool isHosted, bool isUnix)
    {
        string address = isUnix ? _folder.NewAddress() : "fastcgi://127.0.0.1:0";
        await using (IAsyncDisposable server = await Prepare(isHosted, address).Start())
        {
            // what the runtime loads is loaded
        }

        for (int free = 0; ; free++)
        {
            (Func<Task<IAsyncDisposable>> start, IAsyncDisposable? host) = Prepare(isHosted, address);
            await using IAsyncDisposable? prepared = host;
            int before = ProcessState.Descriptors();
            try
            {
                using var few = new FewDescriptors(free);
                await using IAsyncDisposable server = await start();
            }
            catch (MillraceStartException error)
            {
                Assert.Equal(free == 0, error.Message.Contains("signals", StringComparison.Ordinal));      // the first step: it has nothing to take down
                Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= before), $"{free} free: {ProcessState.Descriptors()} descriptors, {before} before");
                Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= _threads), $"{free} free: {ProcessState.Threads("Millrace")} threads, {_threads} before");
                Assert.Empty(Directory.GetFileSystemEntries(_folder.PathOf(".")));
                continue;
            }

            Assert.InRange(free, 4, 40);
            return;
        }
    }

    // What is reported to an application is its own to break: here addresses that cannot be changed.
    [Fact]
    public async Task A_server_whose_start_fails_when_it_listens_already_leaves_nothing()
    {
        string address = _folder.NewAddress();
        (Func<Task<IAsyncDisposable>> start, IAsyncDisposable? app) = Prepare(isHosted: true, address);
        ((WebApplication)app!).Services.GetRequiredService<IServer>().Features.Set<IServerAddressesFeature>(new FixedAddresses([address]));
        await Assert.ThrowsAsync<NotSupportedException>(start);
        LeavesNothing(address);
        await app.DisposeAsync();
    }

    private static (Func<Task<IAsyncDisposable>> Start, IAsyncDisposable? Host) Prepare(bool isHosted, string address)
    {
        if (!isHosted)
        {
            return (async () => await MillraceServer.StartAsync(address, static (_, _) => { }, new MillraceOptions { Loops = 1, IgnoreSignals = true }), null);
        }

        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseMillrace(static options => options.Loops = 1);
        WebApplication app = builder.Build();
        IServer server = app.Services.GetRequiredService<IServer>();
        server.Features.Get<IServerAddressesFeature>()!.Addresses.Add(address);
        return (async () =>
        {
            await server.StartAsync(new NoApplication(), CancellationToken.None);
            return app;
        }, app);
    }

    private sealed class FixedAddresses(string[] addresses) : IServerAddressesFeature
    {
        public ICollection<string> Addresses { get; } = addresses;

        public bool PreferHostingUrls { get; set; }
    }

    private sealed class NoApplication : IHttpApplication<int>
    {
        public int CreateContext(IFeatureCollection contextFeatures) => 0;

        public void DisposeContext(int context, Exception? exception)
        {
        }

        public Task ProcessRequestAsync(int context) => Task.CompletedTask;
    }
}
