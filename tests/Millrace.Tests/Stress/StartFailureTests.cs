// A server that cannot be started as a whole: the system has no thread or no descriptor for one of its loops. Nothing of it is left:
// no thread, no descriptor, no socket that somebody could wait in.

using System.Net.Sockets;
using Millrace.Handlers;
using Millrace.Listeners;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class StartFailureTests : IDisposable
{
    private const int Loops = 4;

    private readonly SocketFolder _folder = new();
    private readonly int _descriptors = ProcessState.Descriptors();
    private readonly int _threads = ProcessState.Threads("Millrace");

    public void Dispose() => _folder.Dispose();

    private static DelegateHandler Handler => new(static (request, response) =>
    {
        response.WriteText(request.Path);
        return default;
    });

    private void LeavesNothing(string address)
    {
        Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= _descriptors), $"{ProcessState.Descriptors()} descriptors, {_descriptors} before");
        Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= _threads), $"{ProcessState.Threads("Millrace")} threads, {_threads} before");
        Assert.ThrowsAny<SocketException>(() => FastCgiPeer.Connect(address));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(Loops)]
    public async Task A_server_that_gets_no_thread_for_one_of_its_loops_says_so_and_leaves_nothing(int refused)
    {
        string address = _folder.NewAddress();
        int asked = 0;
        MillraceStartException error = Assert.Throws<MillraceStartException>(() => Engine.Start(
            ListenAddress.ParseList(address),
            Handler,
            new MillraceOptions { Loops = Loops },
            logger: null,
            thread =>
            {
                if (++asked == refused)
                {
                    throw new InsufficientMemoryException();
                }

                thread.Start();
            }));
        Assert.Contains($"no thread for event loop {refused} of {Loops}", error.Message, StringComparison.Ordinal);
        LeavesNothing(address);
        await using Engine next = Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops }, logger: null);
        using FastCgiPeer peer = FastCgiPeer.Connect(address);
        Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task A_server_that_gets_no_descriptor_for_one_of_its_loops_says_so_and_leaves_nothing(int free)
    {
        string address = _folder.NewAddress();
        await Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops }, logger: null).DisposeAsync();    // what the runtime loads is loaded
        MillraceStartException error = Assert.Throws<MillraceStartException>(() =>
        {
            using var few = new FewDescriptors(free);
            _ = Engine.Start(ListenAddress.ParseList(address), Handler, new MillraceOptions { Loops = Loops }, logger: null);
        });
        Assert.Contains("Cannot create an event queue (EMFILE", error.Message, StringComparison.Ordinal);
        LeavesNothing(address);
    }
}
