// What systemd is told while it does not read.

using System.Net.Sockets;
using System.Text;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class ServiceManagerTests : IDisposable
{
    private static readonly TimeSpan s_long = TimeSpan.FromSeconds(30);

    private readonly string _folder = Directory.CreateTempSubdirectory("millrace-manager-").FullName;
    private readonly Socket _manager = new(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified) { ReceiveTimeout = (int)s_long.TotalMilliseconds };

    private string Path => System.IO.Path.Combine(_folder, "notify");

    public ServiceManagerTests() => _manager.Bind(new UnixDomainSocketEndPoint(Path));

    public void Dispose()
    {
        _manager.Dispose();
        Directory.Delete(_folder, recursive: true);
    }

    [Fact]
    public async Task A_sign_of_life_that_finds_no_room_takes_no_patience_from_what_counts()
    {
        int filled = Fill();
        int said = 0;
        using var its = new ServiceManager(Path, TimeSpan.FromMilliseconds(100), _ => said++);
        await Task.Delay(300);      // signs of life have come to nothing
        var telling = Task.Run(() => its.TellReady("2 of 2 serve"));
        await Task.Delay(300);
        Assert.False(telling.IsCompleted);
        Receive(filled);
        await telling.WaitAsync(s_long);
        Assert.Equal("READY=1\nSTATUS=2 of 2 serve", ReceiveOther());
        Assert.Equal(0, said);
    }

    [Fact]
    public void What_could_not_be_told_is_told_with_the_next_sign_of_life_and_only_the_last_of_it()
    {
        int filled = Fill();
        int said = 0;
        using var its = new ServiceManager(Path, TimeSpan.FromSeconds(2), _ => said++);
        its.TellReady("1 of 2 serve");
        its.TellStopping();
        Assert.Equal(1, said);
        Receive(filled);
        Assert.StartsWith("STOPPING=1\n", ReceiveOther(), StringComparison.Ordinal);
    }

    private int Fill()
    {
        using var other = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified) { Blocking = false };
        other.Connect(new UnixDomainSocketEndPoint(Path));
        int count = 0;
        try
        {
            for (; ; count++)
            {
                other.Send("X"u8);
            }
        }
        catch (SocketException full) when (full.SocketErrorCode == SocketError.WouldBlock)
        {
            return count;
        }
    }

    private void Receive(int count)
    {
        for (int i = 0; i < count; i++)
        {
            Assert.Equal("X", Next());
        }
    }

    private string ReceiveOther()
    {
        string next;
        do
        {
            next = Next();
        }
        while (next == "WATCHDOG=1");
        return next;
    }

    private string Next()
    {
        byte[] bytes = new byte[4096];
        return Encoding.UTF8.GetString(bytes, 0, _manager.Receive(bytes));
    }
}
