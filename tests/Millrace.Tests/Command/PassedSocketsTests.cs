// Which listening sockets the command finds passed to it, and what it tells the application it starts.

using System.Net.Sockets;
using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class PassedSocketsTests
{
    [Theory]
    [InlineData("1", "42", true)]
    [InlineData("2", "42", true)]
    [InlineData("1", "43", false)]
    [InlineData("", "42", false)]
    [InlineData(null, "42", false)]
    [InlineData("1", null, false)]
    public void Those_of_systemd_are_found_when_they_are_for_this_process(string? count, string? process, bool found)
    {
        PassedSockets sockets = PassedSockets.Find(name => name == "LISTEN_FDS" ? count : name == "LISTEN_PID" ? process : null, 42, standardInputListens: false);
        Assert.Equal(found, sockets.Any);
        var environment = new Dictionary<string, string?>();
        sockets.Describe(environment, 42);
        Assert.Equal(found ? "42" : null, environment.GetValueOrDefault(PassedSockets.ProcessVariable));
    }

    [Fact]
    public void Standard_input_that_listens_is_one_and_needs_no_variable()
    {
        PassedSockets sockets = PassedSockets.Find(static _ => null, 42, standardInputListens: true);
        Assert.True(sockets.Any);
        var environment = new Dictionary<string, string?>();
        sockets.Describe(environment, 42);
        Assert.Empty(environment);
    }

    [Fact]
    public void A_listening_socket_is_told_from_others()
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        int descriptor = (int)socket.SafeHandle.DangerousGetHandle();
        Assert.False(Posix.IsListening(descriptor));
        socket.Bind(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0));
        socket.Listen();
        Assert.True(Posix.IsListening(descriptor));
        Assert.False(Posix.IsListening(-1));
    }
}
