// What a handler leaves on its thread (AsyncLocal, culture, Activity, synchronization context; name, priority, background state) is gone
// before the next runs.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using Microsoft.AspNetCore.Builder;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ContextLeakTests : IDisposable
{
    private const string Clean = "clean";

    private static readonly AsyncLocal<string?> s_local = new();

    private readonly SocketFolder _folder = new();
    private readonly ConcurrentDictionary<int, int> _threads = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Adaptive)]
    [InlineData(DispatchMode.Workers)]
    public async Task A_plain_handler_sees_nothing_of_the_one_before(DispatchMode dispatch)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(), (_, response) => response.WriteText(Soil()), new MillraceOptions { Loops = 1, Dispatch = dispatch });
        Ask(server.Addresses[0], "/");
    }

    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Workers)]
    public async Task An_asynchronous_plain_handler_sees_nothing_of_the_one_before(DispatchMode dispatch)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), async (request, response) =>
        {
            if (request.Path == "/yield")
            {
                await Task.Yield();
            }

            response.WriteText(Soil());
        }, new MillraceOptions { Loops = 1, Dispatch = dispatch });
        Ask(server.Addresses[0], "/", "/yield");
    }

    [Fact]
    public async Task A_handler_that_throws_leaves_nothing_behind()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), (request, response) =>
        {
            response.WriteText(Soil());
            if (request.Path == "/throw")
            {
                throw new InvalidOperationException("thrown on purpose");
            }
        }, new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal(500, peer.Exchange(new FastCgiRequest("/throw")).Status);
            Assert.Equal(Clean, peer.Exchange(new FastCgiRequest("/")).Text);
        }
    }

    [Fact]
    public async Task An_endpoint_sees_nothing_of_the_one_before()
    {
        await using HostedApp app = await HostedApp.StartAsync(app =>
        {
            app.MapGet("/", Soil);
            app.MapGet("/yield", async () =>
            {
                await Task.Yield();
                return Soil();
            });
        }, options: static options => (options.Loops, options.Dispatch) = (1, DispatchMode.Inline));
        Ask(app.Address, "/", "/yield");
    }

    private void Ask(string address, params string[] targets)
    {
        using FastCgiPeer peer = FastCgiPeer.Connect(address);
        for (int i = 0; i < 200; i++)
        {
            Assert.Equal(Clean, peer.Exchange(new FastCgiRequest(targets[i % targets.Length])).Text);
        }

        Assert.Contains(_threads.Values, static runs => runs > 1);    // else nothing was shown
    }

    // Says what it finds, then leaves something of every kind behind.
    private string Soil()
    {
        _threads.AddOrUpdate(Environment.CurrentManagedThreadId, 1, static (_, runs) => runs + 1);
        string found = s_local.Value is not null ? "an AsyncLocal"
            : CultureInfo.CurrentCulture.NumberFormat.NumberDecimalSeparator != "." ? "a culture"
            : Activity.Current?.OperationName == "left behind" ? "an Activity"
            : SynchronizationContext.Current is LeftBehind ? "a synchronization context"
            : Thread.CurrentThread.Name == "left behind" ? "a name"
            : Thread.CurrentThread.Priority != ThreadPriority.Normal ? "a priority"
            : !Thread.CurrentThread.IsBackground ? "a foreground thread"
            : Clean;
        s_local.Value = "left behind";
        CultureInfo.CurrentCulture = new CultureInfo("") { NumberFormat = new NumberFormatInfo { NumberDecimalSeparator = "#" } };
        new Activity("left behind").Start();
        SynchronizationContext.SetSynchronizationContext(new LeftBehind());
        if (Thread.CurrentThread.Name == "Millrace driver")
        {
            Thread.CurrentThread.Name = "left behind";
            Thread.CurrentThread.Priority = ThreadPriority.AboveNormal;
            Thread.CurrentThread.IsBackground = false;
        }

        return found;
    }

    private sealed class LeftBehind : SynchronizationContext;
}
