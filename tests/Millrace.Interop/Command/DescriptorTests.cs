// A server in a process of its own that may have few descriptors, and more clients than that.

using System.Globalization;
using System.Net.Sockets;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class DescriptorTests : IDisposable
{
    private const int Clients = 220;

    private readonly TemporaryDirectory _directory = new("few");

    private string SocketPath => Path.Combine(_directory.Path, "s");

    public void Dispose() => _directory.Dispose();

    [Fact]
    public async Task Who_finds_no_descriptor_waits_without_cost_and_is_served_when_there_is_one_RLIMIT_NOFILE()
    {
        await using var server = CommandProcess.StartProgram(
            "sh", "-c", "ulimit -n 150 && exec dotnet \"$0\" \"$1\"", CommandProcess.AssemblyOf("samples/Plain", "Plain"), "http://unix:" + SocketPath);
        await server.WaitForOutputAsync("Listening on ");
        var clients = new List<Socket>();
        try
        {
            for (int i = 0; i < Clients; i++)
            {
                var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 10_000 };
                clients.Add(client);
                await client.ConnectAsync(new UnixDomainSocketEndPoint(SocketPath));
                Ask(client);
            }

            await Task.Delay(1_000);
            List<Socket> served = clients.FindAll(static client => client.Poll(0, SelectMode.SelectRead));
            Assert.InRange(served.Count, 20, 150);
            served.ForEach(Answered);

            // Ten looks a second cost nothing; a loop that spins costs a processor.
            long before = Ticks(server.Id);
            await Task.Delay(1_000);
            Assert.InRange(Ticks(server.Id) - before, 0, 50);
            Ask(served[0]);
            Answered(served[0]);

            List<Socket> waiting = clients.FindAll(client => !served.Contains(client));
            served.ForEach(static client => client.Dispose());
            foreach (Socket client in waiting)
            {
                Answered(client);
                client.Dispose();
            }
        }
        finally
        {
            clients.ForEach(static client => client.Dispose());
        }

        server.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await server.WaitForExitAsync());
    }

    private static void Ask(Socket client) => Assert.Equal(32, client.Send("GET /few HTTP/1.1\r\nHost: few\r\n\r\n"u8));

    private static void Answered(Socket client)
    {
        byte[] buffer = new byte[4096];
        int count = client.Receive(buffer);
        Assert.StartsWith("HTTP/1.1 200 OK\r\n", System.Text.Encoding.ASCII.GetString(buffer, 0, count), StringComparison.Ordinal);
    }

    /// <summary>Hundredths of a second of processor time, user and system (proc(5)).</summary>
    private static long Ticks(int process)
    {
        string stat = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{process}/stat"));
        string[] fields = stat[(stat.LastIndexOf(')') + 2)..].Split(' ');
        return long.Parse(fields[11], CultureInfo.InvariantCulture) + long.Parse(fields[12], CultureInfo.InvariantCulture);
    }
}
