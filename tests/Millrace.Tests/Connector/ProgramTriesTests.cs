// A request for a program whose first try has failed: what the next one may find of it, and what its process is to blame for.

using System.Net.Sockets;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Connector;
using Millrace.Tests.Simulation.Children;

namespace Millrace.Tests.Connector;

public sealed class ProgramTriesTests : IDisposable
{
    private readonly SimulatedTime _time = new();
    private readonly ProgramRequest _request;

    public ProgramTriesTests()
    {
        var context = new DefaultHttpContext();
        context.Request.Method = "GET";
        context.Features.Set<IHttpRequestBodyDetectionFeature>(new WithoutBody());
        _request = new ProgramRequest(context, new FastCgiProgramOptions { ReadTimeout = TimeSpan.FromSeconds(60), Clock = _time }, null);
    }

    public void Dispose() => _request.Dispose();

    [Fact]
    public async Task A_shortage_of_descriptors_is_no_fault_of_a_process_and_no_reason_to_ask_another()
    {
        var process = new FakeProcess(static () => throw new ConnectorException(ConnectorFault.Busy, "There is no socket.") { IsShortage = true });
        using var connections = new ProcessConnection(process, TimeSpan.FromSeconds(1), _time);
        int asked = 0;
        var error = await Assert.ThrowsAsync<ConnectorException>(() => _request.RunAtFreeAsync(run =>
        {
            asked++;
            return run(connections, CancellationToken.None);
        }));
        Assert.Equal((ConnectorFault.Busy, 1, 0), (error.Fault, asked, process.GivenUp));
    }

    [Fact]
    public async Task A_process_that_cannot_be_connected_to_is_given_up_and_the_next_is_asked()
    {
        var process = new FakeProcess(static () => throw new ConnectorException(ConnectorFault.NoConnection, "Nobody listens."));
        int asked = 0;
        await Assert.ThrowsAsync<ConnectorException>(() => _request.RunAtFreeAsync(async run =>
        {
            asked++;
            using var connections = new ProcessConnection(process, TimeSpan.FromSeconds(1), _time);
            await run(connections, CancellationToken.None);
        }));
        Assert.Equal((9, 9), (asked, process.GivenUp));
    }

    // 40 s of silence, and 25 s until the next process is free: none of them has been silent for 60 s.
    [Fact]
    public async Task The_wait_for_another_process_and_the_silence_of_the_first_are_not_that_of_the_next_ReadTimeout()
    {
        await _request.PrepareAsync("", new ScriptTarget(TargetKind.Script), keepsConnection: true, takesBodyFirst: true);
        int asked = 0;
        FakeTransport? second = null;
        await _request.RunAtFreeAsync(async run =>
        {
            var transport = new FakeTransport(_ =>
            {
                if (asked == 1)
                {
                    _time.Pass(40_000);
                    return [];      // it has died
                }
                return TalkingProgram.Whole("hello");
            });
            if (++asked == 2)
            {
                _time.Pass(25_000);
                second = transport;
            }
            var process = new FakeProcess(() => transport) { EndsAsConnectionDoes = asked == 1 };
            using var connections = new ProcessConnection(process, TimeSpan.FromSeconds(1), _time);
            await run(connections, CancellationToken.None);
            Assert.Equal(0, process.GivenUp);
        });
        Assert.Equal((2, true), (asked, second!.HasSent));
    }

    [Fact]
    public async Task Of_what_has_been_given_up_before_a_byte_was_sent_or_found_the_connection_closed_no_record_is_torn()
    {
        using var given = new CancellationTokenSource();
        given.Cancel();
        using var before = new PooledConnection(new FakeTransport(static _ => []));
        await Assert.ThrowsAsync<OperationCanceledException>(async () => await before.SendAsync(new byte[8], given.Token));
        Assert.False(before.IsTorn);

        using var closed = new PooledConnection(new FakeTransport(static _ => []) { Refuses = true });
        await Assert.ThrowsAsync<SocketException>(async () => await closed.SendAsync(new byte[8]));
        Assert.False(closed.IsTorn);
    }

    private sealed class WithoutBody : IHttpRequestBodyDetectionFeature
    {
        public bool CanHaveBody => false;
    }

    private sealed class FakeProcess(Func<ITransport> connect) : IProgramProcess
    {
        private readonly TaskCompletionSource _never = new();

        public int GivenUp { get; private set; }

        public bool EndsAsConnectionDoes { get; init; }

        public bool HasExited => false;

        public Task Exited => _never.Task;

        public ValueTask<ITransport> ConnectAsync(TransportKind kind, CancellationToken ct) => new(connect());

        public Task GiveUpAsync(string why)
        {
            GivenUp++;
            return Task.CompletedTask;
        }

        public Task<bool> WaitForExitAsync(TimeSpan limit) => Task.FromResult(EndsAsConnectionDoes && limit > TimeSpan.Zero);
    }

    private sealed class FakeTransport(Func<int, byte[]> receive) : ITransport
    {
        private int _receives;

        public bool Refuses { get; init; }

        public bool HasSent { get; private set; }

        public bool HasInput => false;

        public ValueTask<int> SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
        {
            ct.ThrowIfCancellationRequested();
            if (Refuses)
            {
                return ValueTask.FromException<int>(new SocketException((int)SocketError.Shutdown));
            }
            HasSent = true;
            return new(bytes.Length);
        }

        public ValueTask<int> ReceiveAsync(Memory<byte> buffer, CancellationToken ct)
        {
            ct.ThrowIfCancellationRequested();
            byte[] bytes = receive(++_receives);
            bytes.CopyTo(buffer);
            return new(bytes.Length);
        }

        public void Shut()
        {
        }

        public void Dispose()
        {
        }
    }
}
