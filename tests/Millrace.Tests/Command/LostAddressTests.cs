// A Unix socket of an application's own whose file has been removed, or is another one.

using System.Net.Sockets;
using Millrace.Command.Serving;
using Millrace.Listeners;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

public sealed class LostAddressTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly List<string> _happened = [];
    private readonly AppListeners _listeners;
    private readonly DaemonFolders _folders;
    private readonly string _path;

    public LostAddressTests()
    {
        _folders = new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code")));
        string address = _folder.NewAddress("http");
        _path = address.Split("unix:")[1];
        _listeners = AppListeners.Open(new AppSettings { Name = "app", Target = "", Urls = [address] }, _folders);
    }

    public void Dispose()
    {
        _listeners.Dispose();
        _folders.Dispose();
        _folder.Dispose();
    }

    private Task<bool> OpenAgainAsync(LostAddress lost) => _listeners.OpenAgainAsync(_folders, new PatientLook(), lost, _happened.Add, CancellationToken.None);

    private void Connect()
    {
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(_path));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task It_is_opened_anew_and_given_once_to_who_had_the_one_before(bool isReplaced)
    {
        Assert.False(await OpenAgainAsync(LostAddress.Fails));
        Dictionary<int, int> had = [];
        using (InheritedSockets before = _listeners.CopyForProcess())
        {
            Assert.Empty(before.Anew);
        }
        File.Delete(_path);
        if (isReplaced)
        {
            using var stale = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            stale.Bind(new UnixDomainSocketEndPoint(_path));
        }

        Assert.True(await OpenAgainAsync(LostAddress.Fails));

        Connect();
        Assert.Equal([$"http://unix:{_path} had been removed by somebody, and is opened anew"], _happened);
        using (AnewSockets anew = _listeners.CopyAnew(had))
        {
            Assert.Equal([0], anew.All.Select(static its => its.Index));
        }
        using (AnewSockets again = _listeners.CopyAnew(had))
        {
            Assert.Empty(again.All);
        }
        using (InheritedSockets next = _listeners.CopyForProcess())
        {
            Assert.Equal(new Dictionary<int, int> { [0] = 1 }, next.Anew);
        }
        Assert.False(await OpenAgainAsync(LostAddress.Fails));
    }

    [Fact]
    public async Task Where_somebody_else_listens_by_then_he_is_left_alone_and_that_is_said()
    {
        File.Delete(_path);
        using ListenSocket other = ListenSockets.Open(ListenAddress.Parse("http://unix:" + _path), loops: 1)[0];

        Assert.False(await OpenAgainAsync(LostAddress.GoesOn));
        Assert.StartsWith($"http://unix:{_path} has been removed by somebody, and cannot be opened anew: ", Assert.Single(_happened), StringComparison.Ordinal);
        MillraceStartException error = await Assert.ThrowsAsync<MillraceStartException>(() => OpenAgainAsync(LostAddress.Fails));
        Assert.EndsWith(" Reload the application then.", error.Message, StringComparison.Ordinal);
        Assert.False(other.HasLostFile);
    }
}
