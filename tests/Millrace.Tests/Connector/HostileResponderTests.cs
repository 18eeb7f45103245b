// Responders that break the protocol in each place, and connections that end at each moment: what the client gets, and what becomes of the next request;
// whether the handler passes requests on or the loop that they came by.

using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Command.Routing;
using Millrace.Loops;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Command;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class HandledHostileResponderTests() : HostileResponderTests(isRelayed: false);

public sealed class RelayedHostileResponderTests() : HostileResponderTests(isRelayed: true);

public abstract class HostileResponderTests(bool isRelayed) : IAsyncLifetime
{
    private readonly SocketFolder _folder = new();
    private readonly List<string> _log = [];
    private Router _router = null!;
    private HostedApp _front = null!;

    private string SocketPath => _folder.PathOf("responder.sock");

    public async ValueTask InitializeAsync()
    {
        _router = new Router([new Route("app", SocketPath, null, null, "")], "/", line =>
        {
            lock (_log)
            {
                _log.Add(line);
            }
        });
        _front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder =>
        {
            if (isRelayed)
            {
                builder.Services.AddSingleton<RelayMaker>(_router.Relays).Configure<MillraceOptions>(static options => options.Loops = 1);
            }
        });
    }

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        await _front.DisposeAsync();
        _router.Dispose();
        _folder.Dispose();
    }

    // What it answers, then it ends the connection; the status of the client's answer, 0 where that is cut off.
    public static TheoryData<string, byte[], int> Answers => new()
    {
        { "nothing", [], 502 },
        { "half a record head", [1, 6, 0], 502 },
        { "another version", [2, 6, 0, 1, 0, 0, 0, 0], 502 },
        { "HTTP", "HTTP/1.1 200 OK\r\n\r\n"u8.ToArray(), 502 },
        { "half a head", Stdout("Status: 200\r\n"), 502 },
        { "no head", [.. Stdout(""), .. ScriptedResponder.End()], 502 },
        { "END_REQUEST alone", ScriptedResponder.End(), 502 },
        { "END_REQUEST of 9 bytes", [.. Stdout("X: 1\r\n\r\n"), .. ScriptedResponder.Record(RecordType.EndRequest, new byte[9])], 502 },
        { "overloaded", ScriptedResponder.End(status: ProtocolStatus.Overloaded), 503 },
        { "no multiplexing", ScriptedResponder.End(status: ProtocolStatus.CannotMultiplex), 502 },
        { "a head and no end", Stdout("X: 1\r\n\r\n"), 0 },
        { "a body and no end", Stdout("X: 1\r\n\r\nbody"), 0 },
        { "fewer bytes than announced", [.. Stdout("Content-Length: 5\r\n\r\nbody"), .. ScriptedResponder.End()], 0 },
        { "more bytes than announced", [.. Stdout("Content-Length: 3\r\n\r\nbody"), .. ScriptedResponder.End()], 502 },
        { "a length and 204", [.. Stdout("Status: 204\r\nContent-Length: 3\r\n\r\n"), .. ScriptedResponder.End()], 502 },
        { "garbage behind its head", [.. Stdout("X: 1\r\n\r\n"), 0, 0, 0, 0, 0, 0, 0, 0], 502 },
        { "a head too large", [.. Enumerable.Range(0, 3).SelectMany(static _ => Stdout("X: " + new string('x', 30_000)))], 502 },
        { "a header that cannot be", [.. Stdout("X Y: 1\r\n\r\n"), .. ScriptedResponder.End()], 502 },
        { "a control character", [.. Stdout("X: a\u0001\r\n\r\n"), .. ScriptedResponder.End()], 502 },
        { "another id, and the right one", [.. ScriptedResponder.Record(RecordType.Stdout, "X: 2\r\n\r\nfor another", id: 2), .. Stdout("X: 1\r\n\r\nbody"), .. ScriptedResponder.End()], 200 },
        { "errors beside it", [.. ScriptedResponder.Record(RecordType.Stderr, "a warning\n"), .. Stdout("X: 1\r\n\r\nbo"), .. ScriptedResponder.Record(RecordType.Stderr, ""), .. Stdout("dy"), .. ScriptedResponder.End()], 200 },
        { "bytes behind its end", [.. Stdout("X: 1\r\n\r\nbody"), .. ScriptedResponder.End(), 1, 6, 0, 1, 0, 0, 0, 0], 200 },
        { "no end of STDOUT", [.. Stdout("X: 1\r\n\r\nbody"), .. ScriptedResponder.End()], 200 },
        { "padding", [.. ScriptedResponder.Record(RecordType.Stdout, "X: 1\r\n\r\nbo", padding: 255), .. ScriptedResponder.Record(RecordType.Stdout, "dy", padding: 7), .. ScriptedResponder.End()], 200 },
        { "an application status", [.. Stdout("X: 1\r\n\r\nbody"), .. ScriptedResponder.End(appStatus: 3)], 200 },
    };

    [Theory]
    [MemberData(nameof(Answers))]
    public async Task An_answer_is_passed_on_whole_or_the_client_learns_that_it_is_not(string name, byte[] answer, int status)
    {
        Assert.NotNull(name);
        await using var responder = new Responder(SocketPath, (_, _) => answer);

        FastCgiResponse response = _front.Get("/");

        if (status == 0)
        {
            Assert.False(response.IsWhole);
            Assert.NotEmpty(_log);
            return;
        }
        Assert.Equal(status, response.Status);
        Assert.Equal(status == 200 ? "body" : status == 503 ? "Not available at the moment\n" : "Bad gateway\n", response.Text);
        Assert.Equal(status != 200 || name == "errors beside it", _log.Count > 0);
    }

    // RFC 9110 §5.5: obs-text is whatever the two ends take it for. Over HTTP: RelayAnswerTests.
    [Fact]
    public async Task Bytes_beyond_ASCII_in_a_field_go_on_as_they_are()
    {
        await using var responder = new Responder(SocketPath, static (_, _) => [.. Stdout("X: \u00C3\u00A4\r\nY: a\r\nY: \u0080\u00FF\r\ny: b\r\n\r\nbody"), .. ScriptedResponder.End()]);
        for (int i = 0; i < 2; i++)
        {
            FastCgiResponse response = _front.Get("/");
            Assert.Equal((200, "body"), (response.Status, response.Text));
            Assert.Equal(("\u00C3\u00A4", "a|\u0080\u00FF|b"), (response["X"], response["Y"]));
        }
        Assert.Empty(_log);
    }

    [Fact]
    public async Task An_answer_that_comes_in_pieces_is_the_same_and_one_that_ends_too_early_is_cut_at_every_byte()
    {
        byte[] whole = [.. Stdout("Content-Type: text/x\r\n\r\nbody"), .. ScriptedResponder.Record(RecordType.Stdout, ""), .. ScriptedResponder.End()];
        int length = 0;
        await using var responder = new Responder(SocketPath, (_, _) => whole[..length], chunk: 1);
        for (length = 0; length <= whole.Length; length++)
        {
            FastCgiResponse response = _front.Get("/");
            Assert.True(length == whole.Length ? response is { IsWhole: true, Status: 200, Text: "body" } : !response.IsWhole || response.Status == 502, $"{length} bytes: {response}");
        }
    }

    [Fact]
    public async Task A_kept_connection_that_its_responder_has_ended_is_not_used_also_for_what_may_not_be_sent_twice()
    {
        await using var responder = new Responder(SocketPath, (_, _) => Whole("body"));
        for (int i = 0; i < 20; i++)
        {
            FastCgiResponse response = _front.Exchange(new FastCgiRequest("/", "POST") { Body = "x"u8.ToArray() });
            Assert.Equal((200, "body"), (response.Status, response.Text));
            Assert.True(SpinWait.SpinUntil(() => responder.Closed == i + 1, TimeSpan.FromSeconds(10)));      // before that it has not ended it, and is the one to know what it does with a request
            Thread.Sleep(i % 3);
        }
        Assert.Equal(20, responder.Requests);
    }

    // The responder has read the request and ends the connection: only it knows what it has done.
    [Theory]
    [InlineData("GET", 200, 3)]
    [InlineData("POST", 502, 2)]
    public async Task A_request_that_dies_with_a_kept_connection_is_sent_again_where_that_does_no_harm_RFC_9110_9_2_2(string method, int status, int requests)
    {
        await using var responder = new Responder(SocketPath, (number, _) => number == 2 ? [] : Whole("body"), keepsOpen: number => number == 1);
        Assert.Equal(200, _front.Get("/").Status);

        FastCgiResponse response = _front.Exchange(new FastCgiRequest("/", method) { Body = method == "POST" ? "x"u8.ToArray() : null });

        Assert.Equal(status, response.Status);
        Assert.Equal(requests, responder.Requests);
    }

    // It may be the request itself that ends whoever reads it: kept connections of others stay out of it.
    [Fact]
    public async Task A_request_that_ends_every_responder_is_sent_twice_and_no_more_however_many_connections_are_kept()
    {
        using var arrived = new CountdownEvent(3);
        bool isDeadly = false;
        await using var responder = new Responder(
            SocketPath,
            (_, _) =>
            {
                if (!isDeadly)
                {
                    arrived.Signal();
                    arrived.Wait();
                }

                return isDeadly ? [] : Whole("body");
            },
            keepsOpen: number => number <= 3);
        await Task.WhenAll(Enumerable.Range(0, 3).Select(_ => Task.Run(() => Assert.Equal(200, _front.Get("/").Status))));
        isDeadly = true;

        Assert.Equal(502, _front.Get("/").Status);
        Assert.Equal(5, responder.Requests);
    }

    [Fact]
    public async Task A_request_that_dies_on_a_new_connection_is_not_sent_again()
    {
        await using var responder = new Responder(SocketPath, (_, _) => []);

        Assert.Equal(502, _front.Get("/").Status);
        Assert.Equal(1, responder.Requests);
    }

    [Fact]
    public async Task An_answer_before_the_body_has_been_read_is_passed_on_and_ends_the_upload()
    {
        await using var responder = new Responder(SocketPath, (_, _) => Whole("early"), readsRequests: false);

        FastCgiResponse response = _front.Exchange(new FastCgiRequest("/", "POST") { Body = new byte[3_000_000] });

        Assert.True(response is { Status: 200, Text: "early" }, $"{response} {string.Join('|', _log)}");
        Assert.Equal(200, _front.Get("/").Status);
    }

    [Fact]
    public async Task Whoever_leaves_a_responder_that_is_silent_takes_its_connection_along()
    {
        await using var responder = new Responder(SocketPath, (_, _) => null);
        using (FastCgiPeer peer = _front.Connect())
        {
            peer.Send(new FastCgiRequest("/").ToBytes());
            await responder.HasRequest;
        }

        Assert.True(await responder.ConnectionEnded.WaitAsync(TimeSpan.FromSeconds(10)));
    }

    private static byte[] Stdout(string text) => ScriptedResponder.Record(RecordType.Stdout, Encoding.Latin1.GetBytes(text));

    private static byte[] Whole(string body) => ScriptedResponder.Answer("X: 1\r\n\r\n" + body);

    /// <summary>Reads whole requests and answers each with bytes that a test has written down; null: with nothing, for ever.</summary>
    private sealed class Responder : IAsyncDisposable
    {
        private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        private readonly Func<int, byte[], byte[]?> _answer;
        private readonly Func<int, bool> _keepsOpen;
        private readonly bool _readsRequests;
        private readonly int _chunk;
        private readonly Task _accepting;
        private readonly TaskCompletionSource _hasRequest = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private readonly TaskCompletionSource<bool> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private int _requests;
        private int _closed;

        public Responder(string path, Func<int, byte[], byte[]?> answer, Func<int, bool>? keepsOpen = null, bool readsRequests = true, int chunk = int.MaxValue)
        {
            _answer = answer;
            _keepsOpen = keepsOpen ?? (_ => false);
            _readsRequests = readsRequests;
            _chunk = chunk;
            _listener.Bind(new UnixDomainSocketEndPoint(path));
            _listener.Listen(16);
            _accepting = AcceptAsync();
        }

        public int Requests => Volatile.Read(ref _requests);

        /// <summary>Connections that it has ended.</summary>
        public int Closed => Volatile.Read(ref _closed);

        public Task HasRequest => _hasRequest.Task;

        public Task<bool> ConnectionEnded => _ended.Task;

        public async ValueTask DisposeAsync()
        {
            _listener.Dispose();
            await _accepting;
        }

        private async Task AcceptAsync()
        {
            try
            {
                while (true)
                {
                    _ = ServeAsync(await _listener.AcceptAsync());
                }
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException)
            {
                // The test is over.
            }
        }

        private async Task ServeAsync(Socket socket)
        {
            await Task.Yield();     // an answer that waits keeps nobody from being accepted
            try
            {
                while (!_readsRequests || await HasReadRequestAsync(socket))
                {
                    int number = Interlocked.Increment(ref _requests);
                    _hasRequest.TrySetResult();
                    if (_answer(number, []) is not { } answer)
                    {
                        _ended.TrySetResult(await socket.ReceiveAsync(new byte[1]) == 0);
                        return;
                    }
                    foreach (byte[] part in answer.Length == 0 ? [] : answer.Chunk(_chunk))
                    {
                        await socket.SendAsync(part);
                    }
                    if (!_keepsOpen(number))
                    {
                        return;
                    }
                }
            }
            catch (SocketException)
            {
                // The client has gone.
            }
            finally
            {
                socket.Dispose();
                Interlocked.Increment(ref _closed);
            }
        }

        private static async Task<bool> HasReadRequestAsync(Socket socket)
        {
            var reader = default(RecordReader);
            byte[] buffer = new byte[4096];
            while (true)
            {
                int count = await socket.ReceiveAsync(buffer);
                if (count == 0)
                {
                    return false;
                }
                for (int at = 0; at < count;)
                {
                    bool isDone = reader.Read(buffer.AsSpan(at, count - at), out int consumed, out RecordPart part) == Millrace.Protocols.ReadResult.Done;
                    at += consumed;
                    if (isDone && part is { Type: RecordType.Stdin, ContentLength: 0 })
                    {
                        return true;
                    }
                }
            }
        }
    }
}
