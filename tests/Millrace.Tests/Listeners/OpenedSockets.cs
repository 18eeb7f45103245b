// What ListenSockets.Open gave, closed together at the end of a test.

using System.Collections;
using Millrace.Listeners;

namespace Millrace.Tests.Listeners;

internal sealed class OpenedSockets(IReadOnlyList<ListenSocket> sockets) : IReadOnlyList<ListenSocket>, IDisposable
{
    public int Count => sockets.Count;

    public int Port => sockets[0].Address.Port;

    public ListenSocket this[int index] => sockets[index];

    public IEnumerator<ListenSocket> GetEnumerator() => sockets.GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    public void Dispose()
    {
        foreach (ListenSocket socket in sockets)
        {
            socket.Dispose();
        }
    }
}
