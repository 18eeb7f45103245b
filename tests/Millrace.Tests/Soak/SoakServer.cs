// The server of the long tests: both protocols, the application of the stress tests behind them.

using System.Net;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

internal sealed class SoakServer : IAsyncDisposable
{
    /// <summary>Ids are used again after so many requests.</summary>
    public const int Ids = 1 << 20;

    private readonly MillraceServer _server;
    private readonly SocketFolder _folder;
    private int _lastId;

    private SoakServer(MillraceServer server, SocketFolder folder)
    {
        _server = server;
        _folder = folder;
    }

    /// <summary>The address of its Unix socket.</summary>
    public string FastCgi => _server.Addresses[0];

    public IPEndPoint Http => IPEndPoint.Parse(_server.Addresses[1]["http://".Length..].TrimEnd('/'));

    public int Connections => _server.Engine.Services.Connections;

    public long Requests => _server.Engine.Loops.Sum(static loop => loop.Counters.Requests);

    public long Accepted => _server.Engine.Loops.Sum(static loop => loop.Counters.Accepted);

    public long HandOvers => _server.Engine.Loops.Sum(static loop => loop.Counters.HandOvers);

    public long Refused => _server.Engine.Loops.Sum(static loop => loop.Counters.Refusals.Sum(static pair => pair.Value));

    /// <summary>What was refused, and how often.</summary>
    public string Refusals => string.Join(", ", _server.Engine.Loops.SelectMany(static loop => loop.Counters.Refusals)
        .GroupBy(static pair => pair.Key, static pair => pair.Value).Select(static group => $"{group.Key} {group.Sum()}"));

    /// <summary>Starts a server whose limits on time are short, so that they are reached.</summary>
    public static async Task<SoakServer> StartAsync()
    {
        var folder = new SocketFolder();
        var handler = new StressHandler(Ids);
        MillraceServer server = await MillraceServer.StartAsync(folder.NewAddress() + ";http://127.0.0.1:0", handler.Handle, new MillraceOptions
        {
            Loops = 2,
            HeadTimeout = TimeSpan.FromSeconds(5),
            BodyTimeout = TimeSpan.FromSeconds(5),
            SendTimeout = TimeSpan.FromSeconds(5),
            DrainTimeout = TimeSpan.FromSeconds(10),
        });
        return new SoakServer(server, folder);
    }

    public int NextId() => Interlocked.Increment(ref _lastId) & (Ids - 1);

    public async ValueTask DisposeAsync()
    {
        await _server.DisposeAsync();
        _folder.Dispose();
    }
}
