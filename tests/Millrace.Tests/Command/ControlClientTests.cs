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

    public void Dispose() => _folder.Delete(recursive: true);

    private Socket Listen()
    {
        var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(_path));
        listener.Listen();
        return listener;
    }

    // How many connections have come: so many are closed behind their request, and the next one is answered.
    private async Task<int> ServeAsync(Socket listener, int closed)
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
                    await connection.SendAsync(Encoding.ASCII.GetBytes($"HTTP/1.1 200 OK\r\nContent-Length: {Status.Length}\r\nConnection: close\r\n\r\n{Status}"), _ct);
                    return count;
                }
            }
        }
    }
}
