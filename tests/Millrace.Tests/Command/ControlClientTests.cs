// The verbs' end of the control socket, beside a daemon that closes a connection at a wrong moment: it is about to become another program.

using System.Net.Sockets;
using System.Text;
using Millrace.Command;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class ControlClientTests : IDisposable
{
    private const string Status = """{"version":"1.0.0","process":7,"since":"2026-01-01T00:00:00Z","file":"/f","upgrades":0,"upgradeFailure":null,"apps":[]}""";

    private readonly CancellationToken _ct = TestContext.Current.CancellationToken;
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-control-");
    private readonly string _path;

    public ControlClientTests() => _path = Path.Combine(_folder.FullName, "control");

    [Theory]
    [InlineData(0)]
    [InlineData(4)]     // so often the framework's client asks by itself, without waiting
    [InlineData(12)]
    public async Task A_question_is_asked_again_when_its_connection_is_closed_without_an_answer(int closed)
    {
        using var listener = Listen();
        var asked = ServeAsync(listener, closed);
        using var client = new ControlClient(_path);

        Assert.Equal(7, (await client.StatusAsync(_ct)).Process);
        Assert.Equal(closed + 1, await asked);
    }

    [Fact]
    public async Task A_daemon_that_never_answers_is_given_up()
    {
        using var listener = Listen();
        var asked = ServeAsync(listener, closed: int.MaxValue);
        using var client = new ControlClient(_path);

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => client.StatusAsync(_ct));
        Assert.StartsWith($"The daemon on {_path} has not answered: ", failure.Message, StringComparison.Ordinal);
        listener.Dispose();
        Assert.InRange(await asked, ControlClient.Tries, 4 * ControlClient.Tries);
    }

    // Root may ask whomever it likes, and so somebody who is no daemon.
    [Theory]
    [InlineData("null")]
    [InlineData("""{"apps":null}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[null]}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[{"name":null,"state":"serving","urls":[],"processes":[],"events":[]}]}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[{"name":"a","state":"serving","urls":[null],"processes":[],"events":[]}]}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[{"name":"a","state":"serving","urls":[],"processes":[null],"events":[]}]}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[{"name":"a","state":"serving","urls":[],"processes":[{"memoryBytes":9223372036854775807}],"events":[]}]}""")]
    [InlineData("""{"version":"1","file":"/f","apps":[{"name":"a","state":"serving","urls":[],"processes":[],"events":[null]}]}""")]
    public async Task An_answer_that_is_none_of_a_daemon_is_refused_with_a_sentence(string answer)
    {
        using var listener = Listen();
        var asked = ServeAsync(listener, closed: 0, answer);
        using var client = new ControlClient(_path);

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => client.StatusAsync(_ct));
        Assert.Contains("and not as a daemon does", failure.Message, StringComparison.Ordinal);
        Assert.Equal(1, await asked);
    }

    [Theory]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task An_answer_has_StatusMost_bytes_at_most_and_one_beyond_is_said_to_be_too_long(int more, bool isTaken)
    {
        const int most = 1024 * 1024;
        using var listener = Listen();
        var asked = ServeAsync(listener, closed: 0, Status + new string(' ', most - Status.Length + more));
        using var client = new ControlClient(_path) { StatusMost = most };

        var failure = await Record.ExceptionAsync(() => client.StatusAsync(_ct));

        Assert.Equal(isTaken, failure is null);
        Assert.True(isTaken || failure!.Message.StartsWith($"What listens on {_path} answers more than 1m.", StringComparison.Ordinal), failure?.Message);
        listener.Dispose();
        _ = await Record.ExceptionAsync(() => asked);
    }

    // A hundred sentences of 2,048 characters each: six bytes for every character would be more than anybody reads.
    [Fact]
    public void What_a_hundred_applications_say_is_read()
    {
        AppEvent[] events = [.. Enumerable.Repeat(new AppEvent(DateTimeOffset.UtcNow, new string('水', Sentence.LengthMax)), 100)];
        var app = new AppStatus("shop", "serving", new string('水', Sentence.LengthMax), ["http://localhost"], 1, 0, 0, null, null, [], events);
        byte[] one = System.Text.Json.JsonSerializer.SerializeToUtf8Bytes(new DaemonStatus(1, "1", "/f", DateTimeOffset.UtcNow, 0, null, [app]), ControlJson.Short.DaemonStatus);
        using var client = new ControlClient(_path);

        Assert.InRange(100L * one.Length, 1, client.StatusMost);
        Assert.Equal(events, System.Text.Json.JsonSerializer.Deserialize(one, ControlJson.Default.DaemonStatus)!.Apps[0].Events);
    }

    [Fact]
    public async Task A_daemon_that_says_nothing_is_waited_for_no_longer_than_Patience()
    {
        using var listener = Listen();
        using var client = new ControlClient(_path) { Patience = TimeSpan.FromMilliseconds(200) };

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => client.StatusAsync(_ct));
        Assert.Contains("has not answered within 0.2 s", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Nothing_that_a_daemon_answers_commands_the_terminal()
    {
        var app = new AppStatus("a\e]0;x\a", "s\u009b2J", "r\e", ["http://\e[1m"], 1, 0, 0, "l\e[2J", null, [], []);
        var status = new DaemonStatus(1, "1", "/f", default, 0, null, [app, app with { Name = new string('n', 100_000) }]);

        string table = StatusTable.Of(status, default, colour: false) + StatusTable.Lines(status, default);

        Assert.DoesNotContain(table, static c => char.IsControl(c) && c is not ('\n' or '\r'));
        Assert.True(table.Length < 300_000);
    }

    public void Dispose() => _folder.Delete(recursive: true);

    private Socket Listen()
    {
        var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(_path));
        listener.Listen();
        return listener;
    }

    // How many connections have come: so many are closed behind their request, and the next one is answered.
    private async Task<int> ServeAsync(Socket listener, int closed, string answer = Status)
    {
        for (int count = 1; ; count++)
        {
            Socket connection;
            try
            {
                connection = await listener.AcceptAsync(_ct);
            }
            catch (SocketException)
            {
                return count - 1;       // nobody listens any more
            }
            using (connection)
            {
                byte[] head = new byte[4096];
                _ = await connection.ReceiveAsync(head, _ct);
                if (count > closed)
                {
                    await connection.SendAsync(Encoding.ASCII.GetBytes($"HTTP/1.1 200 OK\r\nContent-Length: {answer.Length}\r\nConnection: close\r\n\r\n{answer}"), _ct);
                    return count;
                }
            }
        }
    }
}
