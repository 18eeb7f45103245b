// An address whose requests do not count for MaxConcurrentRequests, gate=off: whoever asks how an application is waits behind none of its visitors.

using System.Net.Sockets;
using Millrace.Platform;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Listeners;

public sealed class UncountedAddressTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task A_request_by_an_address_without_a_gate_is_answered_while_others_wait_and_takes_no_place_of_theirs()
    {
        var gate = new TaskCompletionSource();
        await using MillraceServer server = await MillraceServer.StartAsync(
            $"{_folder.NewAddress()};{_folder.NewAddress()}?gate=off",
            async (request, response) =>
            {
                if (request.Path == "/holds")
                {
                    await gate.Task;
                }

                response.WriteText(request.Path);
            },
            new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, RequestQueueLimit = 0 });
        using FastCgiPeer asks = FastCgiPeer.Connect(server.Addresses[1]);
        using FastCgiPeer holds = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer late = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/health", asks.Exchange(new FastCgiRequest("/health")).Text);
        holds.Send(new FastCgiRequest("/holds").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Requests == 2));
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("/health", asks.Exchange(new FastCgiRequest("/health")).Text);
            Assert.Equal(ProtocolStatus.Overloaded, late.Exchange(new FastCgiRequest("/late")).End!.Value.Status);
        }

        asks.Send(new FastCgiRequest("/holds").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Requests == 6));
        gate.SetResult();
        Assert.Equal("/holds", holds.Receive().Text);
        Assert.Equal("/holds", asks.Receive().Text);
        Assert.Equal("/late", late.Exchange(new FastCgiRequest("/late")).Text);
    }

    // Whether it counts goes along with a connection, and is not of who takes it.
    [Fact]
    public async Task A_connection_to_an_address_without_a_gate_counts_no_more_where_it_has_moved_to()
    {
        var gate = new TaskCompletionSource();
        var options = new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, RequestQueueLimit = 0 };
        await using MillraceServer before = await MillraceServer.StartAsync($"{_folder.NewAddress()};{_folder.NewAddress()}?gate=off", AnswerPath, options);
        await using MillraceServer after = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            async (request, response) =>
            {
                await gate.Task;
                response.WriteText("after");
            },
            options);
        using FastCgiPeer visitor = FastCgiPeer.Connect(before.Addresses[0]);
        using FastCgiPeer asks = FastCgiPeer.Connect(before.Addresses[1]);
        Assert.Equal("/visitor", visitor.Exchange(new FastCgiRequest("/visitor")).Text);
        Assert.Equal("/health", asks.Exchange(new FastCgiRequest("/health")).Text);
        (int gives, int takes) = MoveChannel.New();
        await after.Engine.TakeFromAsync(takes);
        await before.Engine.MoveTo(gives);
        using FastCgiPeer holds = FastCgiPeer.Connect(after.Addresses[0]);
        holds.Send(new FastCgiRequest("/holds").ToBytes());
        Assert.True(ProcessState.Becomes(() => after.Engine.Loops[0].Counters.Requests == 1));
        Assert.Equal(ProtocolStatus.Overloaded, visitor.Exchange(new FastCgiRequest("/visitor")).End!.Value.Status);
        asks.Send(new FastCgiRequest("/health").ToBytes());
        Assert.True(ProcessState.Becomes(() => after.Engine.Loops[0].Counters.Requests == 2));
        gate.SetResult();
        Assert.Equal("after", asks.Receive().Text);
        Assert.Equal("after", holds.Receive().Text);
    }

    // As it is written, or passed as a descriptor.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_connection_to_an_address_without_a_gate_is_taken_beyond_MaxConnections(bool isInherited)
    {
        string asked = _folder.NewAddress();
        string own = asked;
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        if (isInherited)
        {
            listener.Bind(new UnixDomainSocketEndPoint(own["fastcgi://unix:".Length..]));
            listener.Listen(16);
            own = $"fastcgi://fd:{SystemCalls.Fcntl((int)listener.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3)}";
        }

        await using MillraceServer server = await MillraceServer.StartAsync(
            $"{_folder.NewAddress()};{own}?gate=off",
            AnswerPath,
            new MillraceOptions { Loops = 1, MaxConnections = 1 });
        using FastCgiPeer visitor = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/visitor", visitor.Exchange(new FastCgiRequest("/visitor")).Text);
        for (int i = 0; i < 3; i++)
        {
            using FastCgiPeer asks = FastCgiPeer.Connect(asked);
            Assert.Equal("/health", asks.Exchange(new FastCgiRequest("/health")).Text);
            using FastCgiPeer refused = FastCgiPeer.Connect(server.Addresses[0]);
            Assert.False(IsServed(refused));
        }

        Assert.Equal("/visitor", visitor.Exchange(new FastCgiRequest("/visitor")).Text);
    }

    // A part of what is kept back, so that some is left for the application whoever comes.
    [Fact]
    public async Task A_connection_to_an_address_without_a_gate_is_taken_into_half_of_the_reserve_ReservedDescriptors()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            $"{_folder.NewAddress()};{_folder.NewAddress()}?gate=off",
            AnswerPath,
            new MillraceOptions { Loops = 1, ReservedDescriptors = 100 });
        Assert.Equal(50, server.Engine.Loops[0].Services.ReservePart);
        server.Engine.Loops[0].Services.DescriptorCeiling = 1;
        server.Engine.Loops[0].Services.ReservePart = 100_000;
        using FastCgiPeer shows = FastCgiPeer.Connect(server.Addresses[0]);        // that the reserve is reached
        Assert.Equal("/shows", shows.Exchange(new FastCgiRequest("/shows")).Text);
        using FastCgiPeer waits = FastCgiPeer.Connect(server.Addresses[0]);
        waits.Send(new FastCgiRequest("/waits").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Refusals.Any(static one => one is { Key: "descriptors-exhausted", Value: > 0 })));
        for (int i = 0; i < 3; i++)
        {
            using FastCgiPeer asks = FastCgiPeer.Connect(server.Addresses[1]);
            Assert.Equal("/health", asks.Exchange(new FastCgiRequest("/health")).Text);
        }

        server.Engine.Loops[0].Services.ReservePart = 1;
        using FastCgiPeer late = FastCgiPeer.Connect(server.Addresses[1]);
        late.Send(new FastCgiRequest("/late").ToBytes());
        Thread.Sleep(500);
        Assert.Equal(4, server.Engine.Loops[0].Counters.Requests);
        server.Engine.Loops[0].Services.DescriptorCeiling = int.MaxValue;
        Assert.Equal("/late", late.Receive().Text);
        Assert.Equal("/waits", waits.Receive().Text);
    }

    private static ValueTask AnswerPath(Request request, Response response)
    {
        response.WriteText(request.Path);
        return default;
    }

    // Its end shows as it is sent to, or as its answer is read.
    private static bool IsServed(FastCgiPeer peer)
    {
        try
        {
            return peer.Exchange(new FastCgiRequest("/refused")).IsWhole;
        }
        catch (Exception error) when (error is SocketException or IOException)
        {
            return false;
        }
    }
}
