// A SignalR hub with each of the three shapes of a call: one answer, a message to everybody, and a stream.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http.Connections.Features;
using Microsoft.AspNetCore.SignalR;

namespace Millrace.Browser.Site;

public sealed class ChatHub(Notes notes) : Hub
{
    public override Task OnDisconnectedAsync(Exception? exception)
    {
        notes.Happened($"{Context.GetHttpContext()!.Request.Query["name"]} {(exception is null ? "left" : exception.Message)}");
        return Task.CompletedTask;
    }

    /// <summary>The transport that the client and the server have agreed on.</summary>
    public string Transport() => Context.Features.Get<IHttpTransportFeature>()!.TransportType.ToString();

    public string Upper(string text) => text.ToUpperInvariant();

    public Task Say(string text) => Clients.All.SendAsync("said", text);

    public async IAsyncEnumerable<int> Count(int to, [EnumeratorCancellation] CancellationToken cancellation)
    {
        for (int i = 1; i <= to; i++)
        {
            yield return i;
            await Task.Delay(1, cancellation);
        }
    }
}
