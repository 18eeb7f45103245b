// A web application on a Unix socket of its own, over either protocol, where nobody has an address: neither the client nor
// the server. One request at a time, each on a connection of its own.

using System.Net;
using System.Net.Http.Headers;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public enum ApplicationProtocol
{
    FastCgi,
    Http,
}

internal sealed class UnixApp : IAsyncDisposable
{
    private readonly SocketFolder _folder;
    private readonly HostedApp _app;
    private readonly ApplicationProtocol _protocol;

    private UnixApp(SocketFolder folder, HostedApp app, ApplicationProtocol protocol)
    {
        _folder = folder;
        _app = app;
        _protocol = protocol;
    }

    private string SocketPath => _app.Address.Split('?')[0].Split("unix:")[1];

    public static async Task<UnixApp> StartAsync(ApplicationProtocol protocol, Action<WebApplication> map, Action<WebApplicationBuilder>? configure = null)
    {
        var folder = new SocketFolder();
        string scheme = protocol == ApplicationProtocol.Http ? "http" : "fastcgi";
        return new UnixApp(folder, await HostedApp.StartAsync(map, configure, address: $"{scheme}://unix:{folder.PathOf("app.sock")}"), protocol);
    }

    public Task<UnixAnswer> Get(string target, params (string Name, string Value)[] headers) => Send("GET", target, null, headers);

    /// <summary>Reads nothing of the body for a while.</summary>
    public Task<UnixAnswer> GetLate(string target, TimeSpan pause) => GetLate(target, Task.Delay(pause));

    /// <summary>Reads nothing of the body before.</summary>
    public Task<UnixAnswer> GetLate(string target, Task before) => Send("GET", target, null, [], reads: before);

    public Task<UnixAnswer> Post(string target, byte[] body, params (string Name, string Value)[] headers) => Send("POST", target, body, headers);

    /// <summary>Sends nothing of the body before, or no more than its beginning.</summary>
    public Task<UnixAnswer> PostLate(string target, byte[] body, Task before, int ahead = 0) => Send("POST", target, body, [], sends: before, ahead: ahead);

    public async ValueTask DisposeAsync()
    {
        await _app.DisposeAsync();
        _folder.Dispose();
    }

    private Task<UnixAnswer> Send(string method, string target, byte[]? body, (string Name, string Value)[] headers, Task? sends = null, Task? reads = null, int ahead = 0) => _protocol == ApplicationProtocol.Http
        ? SendHttp(method, target, body is null ? null : new LateContent(body, sends, ahead), headers, reads)
        : SendFastCgi(method, target, body, headers, sends, reads, ahead);

    private async Task<UnixAnswer> SendFastCgi(string method, string target, byte[]? body, (string Name, string Value)[] headers, Task? sends, Task? reads, int ahead)
    {
        string host = headers.FirstOrDefault(static header => header.Name == "Host").Value ?? "example.com";
        var request = new FastCgiRequest(target, method) { SaysAddresses = false, Body = body, Host = host };
        foreach ((string name, string value) in headers.Where(static header => header.Name != "Host"))
        {
            _ = name == "Content-Type" ? request.With("CONTENT_TYPE", value) : request.WithHeader(name, value);
        }

        using FastCgiPeer peer = _app.Connect();
        byte[] begun = [.. request.Head(), .. request.Stdin(body.AsSpan(0, ahead))];
        byte[] rest = [.. request.Stdin(body.AsSpan(ahead)), .. request.EndOfStdin()];
        if (sends is null)
        {
            peer.Send([.. begun, .. rest]);     // in one piece, as a front server does
        }
        else
        {
            peer.Send(begun);
            await sends;
            peer.Send(rest);
        }

        await (reads ?? Task.CompletedTask);
        FastCgiResponse response = peer.Receive();
        Assert.True(response.IsWhole, response.ToString());
        return new UnixAnswer(response.Status, response.Text, name => response[name]);
    }

    private async Task<UnixAnswer> SendHttp(string method, string target, HttpContent? body, (string Name, string Value)[] headers, Task? reads)
    {
        using var handler = new SocketsHttpHandler { UseCookies = false, AllowAutoRedirect = false, ConnectCallback = ConnectAsync };
        using var client = new HttpClient(handler) { Timeout = TimeSpan.FromSeconds(20) };
        using var request = new HttpRequestMessage(new HttpMethod(method), "http://example.com" + target) { Content = body };
        foreach ((string name, string value) in headers)
        {
            Assert.True(request.Headers.TryAddWithoutValidation(name, value) || request.Content!.Headers.TryAddWithoutValidation(name, value));
        }

        using HttpResponseMessage response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
        await (reads ?? Task.CompletedTask);
        string text = await response.Content.ReadAsStringAsync();
        HttpResponseHeaders fields = response.Headers;
        return new UnixAnswer((int)response.StatusCode, text, name => fields.TryGetValues(name, out IEnumerable<string>? values) ? string.Join('|', values) : null);
    }

    private async ValueTask<Stream> ConnectAsync(SocketsHttpConnectionContext context, CancellationToken cancellation)
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await socket.ConnectAsync(new UnixDomainSocketEndPoint(SocketPath), cancellation);
        return new NetworkStream(socket, ownsSocket: true);
    }

    private sealed class LateContent(byte[] body, Task? before, int ahead) : HttpContent
    {
        protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context)
        {
            await stream.WriteAsync(body.AsMemory(0, ahead));
            if (before is not null)
            {
                await stream.FlushAsync();
                await before;
            }

            await stream.WriteAsync(body.AsMemory(ahead));
        }

        protected override bool TryComputeLength(out long length)
        {
            length = body.Length;
            return true;
        }
    }
}

/// <param name="Status">The status code.</param>
/// <param name="Text">The body.</param>
/// <param name="Field">The value of a header field, null when there is none.</param>
internal sealed record UnixAnswer(int Status, string Text, Func<string, string?> Field);
