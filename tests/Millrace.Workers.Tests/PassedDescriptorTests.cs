// Descriptors that a child sends with what it prints or answers: the kernel refuses them, from Linux 6.16 on, since to close them may take as long as the child likes.

using System.Net.Sockets;
using Millrace.Workers.Processes;

namespace Millrace.Workers.Tests;

public sealed class PassedDescriptorTests
{
    private const int SOL_SOCKET = 1;
    private const int SO_PASSRIGHTS = 83;

    [Fact]
    public void Sockets_by_which_a_child_is_heard_take_none()
    {
        (int ours, int theirs) = Posix.Pair();
        using var output = new Socket(new SafeSocketHandle(ours, ownsHandle: true));
        using Socket client = ClientSocket.New();
        Posix.Close(theirs);
        using var untouched = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        bool canRefuse = PassesRights(untouched) == 1;
        Assert.All([output, client], socket => Assert.Equal(canRefuse ? 0 : null, PassesRights(socket)));
    }

    // Null: the kernel does not know it.
    private static int? PassesRights(Socket socket)
    {
        byte[] value = new byte[4];
        try
        {
            _ = socket.GetRawSocketOption(SOL_SOCKET, SO_PASSRIGHTS, value);
            return BitConverter.ToInt32(value);
        }
        catch (SocketException)
        {
            return null;
        }
    }
}
