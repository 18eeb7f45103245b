// What one class of end-to-end tests stands on: the application on one kind of socket and a front end before it. Further
// applications and front ends of the same combination can be started for tests that stop them.
using Millrace.Interop.Apps;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract class EndToEndRig(FrontEndProgram program, Combination combination, bool alwaysMillrace = false) : IAsyncLifetime
{
    private readonly Lazy<TemporaryDirectory> _sockets = new(() => new TemporaryDirectory("sockets", searchable: program.IsAnotherUser));
    private int _socketCount;

    public FrontEndProgram Program => program;

    /// <summary>The combination its tests are written for.</summary>
    public Combination Declared => combination;

    /// <summary>The combination as it is run: not the declared one where the list is checked with another server.</summary>
    public Combination Combination { get; } = alwaysMillrace ? combination : ServerUnderTest.Adjust(combination);

    public EndToEndApp App { get; private set; } = null!;

    public IFrontEnd FrontEnd { get; private set; } = null!;

    /// <summary>What lines in the front end's error log may hold because tests provoked them.</summary>
    public HashSet<string> ExpectedErrors { get; } = new(StringComparer.Ordinal);

    public async ValueTask InitializeAsync()
    {
        App = await EndToEndApp.StartAsync(FreeAddress());
        FrontEnd = await StartFrontEndAsync(App);
    }

    /// <summary>An address for one more application, of this combination's scheme and kind of socket.</summary>
    public string FreeAddress()
    {
        string scheme = Combination.Protocol == AppProtocol.FastCgi ? "fastcgi" : "http";
        return Combination.Transport == Transport.Tcp
            ? $"{scheme}://127.0.0.1:0"
            : $"{scheme}://unix:{Path.Combine(_sockets.Value.Path, $"app{++_socketCount}.sock")}{SocketOptions}";
    }

    /// <summary>The address at which another application can take the place of one that has ended.</summary>
    public string AddressOf(EndToEndApp app) => Combination.Transport == Transport.Tcp ? app.Address : app.Address + SocketOptions;

    private string SocketOptions => program.IsAnotherUser ? "?mode=666" : "";

    public Task<IFrontEnd> StartFrontEndAsync(params EndToEndApp[] apps) =>
        StartFrontEndAsync(new Upstream(Combination, [.. apps.Select(static app => app.Address)]));

    public async ValueTask DisposeAsync()
    {
        // The front end first: the application then sees its connections end, as at a shutdown of a machine.
        if (FrontEnd is not null)
        {
            await FrontEnd.DisposeAsync();
        }

        if (App is not null)
        {
            await App.DisposeAsync();
        }

        if (_sockets.IsValueCreated)
        {
            _sockets.Value.Dispose();
        }

        GC.SuppressFinalize(this);
    }

    protected virtual async Task<IFrontEnd> StartFrontEndAsync(Upstream upstream) => await FrontEndServer.StartAsync(program, upstream);
}
