// The file of a Unix socket is removed, or replaced, while the server runs.

using System.Net.Sockets;

namespace Millrace.Tests.Stress;

public sealed class SocketFileTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task Kept_connections_go_on_without_the_file_and_another_file_in_its_place_is_left_alone()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (request, response) => response.WriteText(request.Path));
        string address = server.Addresses[0];
        string path = address["fastcgi://unix:".Length..];
        using FastCgiPeer kept = FastCgiPeer.Connect(address);
        Assert.Equal("/before", kept.Exchange(new FastCgiRequest("/before")).Text);
        File.Delete(path);
        Assert.Equal("/after", kept.Exchange(new FastCgiRequest("/after")).Text);
        Assert.ThrowsAny<SocketException>(() => FastCgiPeer.Connect(address));

        await File.WriteAllTextAsync(path, "somebody else's");
        Assert.Equal("/later", kept.Exchange(new FastCgiRequest("/later")).Text);
        await server.StopAsync();
        Assert.Equal("somebody else's", await File.ReadAllTextAsync(path));
    }
}
