// An application that sends connections along with its answers whose last close waits as long as it likes: whoever closes them stands still, and that must be nobody who has anything else to do.

using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private static readonly TimeSpan Unhindered = TimeSpan.FromSeconds(30);     // half of what each of them would take; the machine may be busy

    [Fact]
    public async Task An_application_that_sends_what_nobody_can_close_holds_up_neither_the_daemon_nor_its_neighbours()
    {
        using TcpListener reads = await WriteAndPassAsync();
        var daemon = _daemons[^1];
        for (int i = 0; i < 6; i++)
        {
            await TryAskAsync("/evil/title");       // each over a connection of the router's
            Assert.Equal("Well", await AskAsync("x", "/well/title").WaitAsync(Unhindered));
        }
        Assert.Contains("evil", await StatusAsync().WaitAsync(Unhindered), StringComparison.Ordinal);

        Assert.Equal(0, (await DoAsync("stop", "evil").WaitAsync(Unhindered)).ExitCode);
        Assert.Equal(0, (await DoAsync("reload").WaitAsync(Unhindered)).ExitCode);
        Assert.Equal("Well", await AskAsync("x", "/well/title").WaitAsync(Unhindered));
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync().WaitAsync(Unhindered));
    }

    [Fact]
    public async Task The_next_daemon_waits_for_nothing_that_an_application_sends_to_it()
    {
        using TcpListener reads = await WriteAndPassAsync();
        _daemons[^1].Signal(CommandProcess.SigKill);
        await _daemons[^1].WaitForExitAsync();

        var daemon = CommandProcess.Millrace("serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ").WaitAsync(Unhindered);
        Assert.Equal("Well", await AskAsync("x", "/well/title").WaitAsync(Unhindered));
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync().WaitAsync(Unhindered));
    }

    private async Task<TcpListener> WriteAndPassAsync()
    {
        var reads = new TcpListener(IPAddress.Loopback, 0);
        reads.Server.ReceiveBufferSize = 4096;
        reads.Start(backlog: 1_000);
        WriteShared(On("evil", "\"path\": \"/evil\""), On("well", "\"path\": \"/well\"", "\"environment\": { \"TITLE\": \"Well\" }"));
        await StartAsync();
        Assert.Equal("Well", await AskAsync("x", "/well/title"));
        using var begun = await _client.PostAsync(string.Create(CultureInfo.InvariantCulture, $"{_shop}/evil/pass/{((IPEndPoint)reads.LocalEndpoint).Port}"), null);
        await Task.Delay(500);
        return reads;
    }

    // Whatever becomes of it.
    private async Task TryAskAsync(string path)
    {
        try
        {
            using var limit = new CancellationTokenSource(TimeSpan.FromSeconds(3));
            using var answer = await _client.GetAsync(_shop + path, limit.Token);
        }
        catch (Exception error) when (error is HttpRequestException or OperationCanceledException)
        {
            // So it wants it.
        }
    }
}
