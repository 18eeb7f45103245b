// The end-to-end list: what must hold behind every front end, over every socket and protocol, with and without
// keep-alive. One class, run for each combination through a class derived from it. Its parts:
//   EndToEndList.Requests.cs   methods, targets, headers, cookies, statuses
//   EndToEndList.Bodies.cs     request and response bodies of every size, files
//   EndToEndList.Streaming.cs  bytes that arrive while the exchange runs; aborts
//   EndToEndList.Faults.cs     handlers that throw; what FastCGI cannot carry
//   EndToEndList.Load.cs       many requests, blocking handlers, drain
//   EndToEndList.Instead.cs    what several front ends do instead of an item
// A front end that makes an item impossible overrides it in its class, with a DeviationAttribute that says why, and asserts
// what happens instead. Not here: what only one front end does; the wire (tests of the protocol layer).
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList(EndToEndRig rig) : IAsyncDisposable
{
    private readonly int _errorLogStart = rig.FrontEnd.ErrorLog().Count;
    // Of the whole class: a line may come after the test that provoked it.
    private readonly HashSet<string> _expectedErrors = rig.ExpectedErrors;

    protected EndToEndRig Rig => rig;

    protected EndToEndApp App => rig.App;

    protected bool IsFastCgi => rig.Combination.Protocol == AppProtocol.FastCgi;

    protected bool IsKeptAlive => rig.Combination.Connections == UpstreamConnections.KeptAlive;

    /// <summary>After each test: the front end has nothing to complain about but what this test, or one before it, says it provokes.</summary>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        string[] unexpected =
        [
            .. rig.FrontEnd.ErrorLog()
                .Skip(_errorLogStart)
                .Where(line => !_expectedErrors.Any(expected => line.Contains(expected, StringComparison.Ordinal))),
        ];
        Assert.True(unexpected.Length == 0, $"The front end complains: {string.Join('\n', unexpected)}");
        return ValueTask.CompletedTask;
    }

    protected static string NewTag() => Guid.NewGuid().ToString("N");

    protected Task<WireClient> ConnectAsync() => WireClient.ConnectAsync(rig.FrontEnd.Buffered);

    protected Task<WireClient> ConnectStreamingAsync() => WireClient.ConnectAsync(rig.FrontEnd.Streaming);

    protected void ExpectInErrorLog(string text) => _expectedErrors.Add(text);

    protected void ExpectInErrorLog(Complaint complaint) => _expectedErrors.UnionWith(rig.Program.TextsOf(complaint));

    protected async Task<WireResponse> GetAsync(string target, params string[] headers)
    {
        using WireClient client = await ConnectAsync();
        return await client.GetAsync(target, headers);
    }

    /// <summary>The application is as it was: it answers on a new connection, and on one that was kept.</summary>
    protected async Task AssertStillServesAsync()
    {
        using WireClient client = await ConnectAsync();
        for (int i = 0; i < 2; i++)
        {
            WireResponse response = await client.GetAsync("/hello");
            Assert.Equal(200, response.Status);
            Assert.Equal("Hello, World!", response.Text);
        }
    }
}
