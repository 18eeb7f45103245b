// Pages that keep talking to the server: WebSockets, SignalR over each of its transports, a Blazor Server circuit. nginx
// passes no WebSocket on over FastCGI: SignalR and Blazor then choose another transport by themselves.

using Millrace.Browser.Site;

namespace Millrace.Browser.Browsers;

[Collection(BrowserCollection.Name)]
public sealed class LiveTests(SiteServer site, Chromium chromium)
{
    [Theory]
    [InlineData(Way.Direct, "WebSockets")]
    [InlineData(Way.Direct, "ServerSentEvents")]
    [InlineData(Way.Direct, "LongPolling")]
    [InlineData(Way.BehindNginx, "ServerSentEvents")]
    [InlineData(Way.BehindNginx, "LongPolling")]
    public async Task SignalR_calls_hears_and_streams(Way way, string transport)
    {
        string name = $"{way}-{transport}";
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, $"/chat?transport={transport}&name={name}"));
        await window.WaitForText("#state", transport + " GRAIN flour 1,2,3,4,5 20000");
        Assert.Equal(transport == "WebSockets" ? 1 : 0, window.WebSockets);
        window.AssertNoTrouble();

        // Stopping ends the request in progress on purpose, which the browser counts as failed.
        await window.Page.EvaluateAsync("hub.stop()");
        await site.Notes.WaitFor(name + " left");
    }

    [Fact]
    public async Task A_web_socket_echoes_text_and_a_megabyte_of_bytes_and_closes_with_its_reason()
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(Way.Direct, "/"));
        string result = await window.Page.EvaluateAsync<string>("""
            new Promise(resolve => {
                const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket?protocol=grist', 'grist');
                const sent = new Uint8Array(1 << 20).map((_, i) => i * 7);
                let log = '';
                socket.binaryType = 'arraybuffer';
                socket.onopen = () => { log += socket.protocol; socket.send('Mühle'); };
                socket.onmessage = message => {
                    if (typeof message.data === 'string') {
                        log += ` ${message.data}`;
                        socket.send(sent);
                    } else {
                        log += new Uint8Array(message.data).every((byte, i) => byte === sent[i]) ? ` ${message.data.byteLength}` : ' differs';
                        socket.close(4000, 'enough');
                    }
                };
                socket.onclose = close => resolve(`${log} ${close.code} ${close.reason} ${close.wasClean}`);
            })
            """);
        Assert.Equal("grist Mühle 1048576 4000 seen: enough true", result);
        window.AssertNoTrouble();
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_Blazor_Server_circuit_starts_and_handles_clicks_and_typing(Way way)
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/counter"));
        await window.WaitForText("#state", "interactive");
        await window.Page.ClickAsync("#more");
        await window.WaitForText("#count", "1");
        await window.Page.ClickAsync("#more");
        await window.WaitForText("#count", "2");
        await window.Page.FillAsync("#word", "grain");
        await window.WaitForText("#shout", "GRAIN");

        // Behind nginx Blazor warns on the console that it goes on without a WebSocket.
        Assert.Equal(way == Way.Direct ? 1 : 0, window.WebSockets);
        if (way == Way.Direct)
        {
            window.AssertNoTrouble();
        }
    }
}
