// One connection between the client and a simulated child, with both of its ends: sends are taken in part or have to wait, what has arrived can be read although the other end has gone, and whoever
// sends to one that has gone is told so. Everything happens on the thread of the simulation.

using System.Net.Sockets;
using Millrace.Connector;

namespace Millrace.Tests.Simulation.Children;

internal sealed class ChildConnection(ChildrenWorld world, int capacity) : ITransport
{
    private readonly List<byte> _toChild = [];
    private readonly List<byte> _toClient = [];
    private readonly List<TaskCompletionSource> _sending = [];
    private readonly List<TaskCompletionSource> _receiving = [];
    private bool _isReset;

    /// <summary>The client has closed it.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>The last request of which bytes have gone over it; null: none.</summary>
    public string? Request { get; private set; }

    /// <summary>The child has.</summary>
    public bool HasEnded { get; private set; }

    // ---- the client's end ----

    public bool HasInput
    {
        get
        {
            ObjectDisposedException.ThrowIf(IsDisposed, this);
            return _toClient.Count > 0 || HasEnded;
        }
    }

    public async ValueTask<int> SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        while (true)
        {
            ct.ThrowIfCancellationRequested();
            ObjectDisposedException.ThrowIf(IsDisposed, this);
            if (HasEnded)
            {
                throw new SocketException((int)SocketError.Shutdown);
            }

            int room = capacity - _toChild.Count;
            if (room > 0)
            {
                int count = Math.Min(room, world.Random.Chance(25) ? world.Random.Between(1, bytes.Length) : bytes.Length);
                Note(bytes.Span);
                _toChild.AddRange(bytes.Span[..count]);
                if (world.Random.Chance(10))
                {
                    BetweenSends?.Invoke();     // the child need not wait for the rest
                }

                return count;
            }

            await WaitAsync(_sending, ct).ConfigureAwait(false);
        }
    }

    public async ValueTask<int> ReceiveAsync(Memory<byte> buffer, CancellationToken ct)
    {
        while (true)
        {
            ct.ThrowIfCancellationRequested();
            ObjectDisposedException.ThrowIf(IsDisposed, this);
            if (_toClient.Count > 0)
            {
                int count = Math.Min(_toClient.Count, buffer.Length);
                _toClient.GetRange(0, count).ToArray().CopyTo(buffer);
                _toClient.RemoveRange(0, count);
                return count;
            }

            if (HasEnded)
            {
                return _isReset ? throw new SocketException((int)SocketError.ConnectionReset) : 0;
            }

            await WaitAsync(_receiving, ct).ConfigureAwait(false);
        }
    }

    public void Shut()
    {
        if (!IsDisposed)
        {
            ChildClose();
        }
    }

    public void Dispose()
    {
        world.Note($"the connection of {Request} is closed by the client");
        IsDisposed = true;
        Wake();
    }

    // A request is in one piece with its parameters.
    private void Note(ReadOnlySpan<byte> bytes)
    {
        if (ChildrenWorld.IdIn(System.Text.Encoding.Latin1.GetString(bytes)) is { } id && id != Request)
        {
            world.Sent(id, wasUsed: Request is not null);
            Request = id;
        }
    }

    // Each has one of its own: who waits for the same as another goes on on another thread.
    private static async Task WaitAsync(List<TaskCompletionSource> waiting, CancellationToken ct)
    {
        var moved = new TaskCompletionSource();
        waiting.Add(moved);
        using CancellationTokenRegistration leaving = ct.UnsafeRegister(static state => ((TaskCompletionSource)state!).TrySetResult(), moved);
        await moved.Task.ConfigureAwait(false);
    }

    private static void GoOn(List<TaskCompletionSource> waiting)
    {
        TaskCompletionSource[] all = [.. waiting];
        waiting.Clear();
        Array.ForEach(all, static each => each.TrySetResult());
    }

    private void Wake()
    {
        GoOn(_sending);
        GoOn(_receiving);
    }

    // ---- the child's end ----

    /// <summary>Something has been sent, and the client has not gone on.</summary>
    public Action? BetweenSends { get; set; }

    /// <summary>Bytes that the child has not read.</summary>
    public int Unread => _toChild.Count;

    public byte[] ChildRead(int max)
    {
        byte[] taken = [.. _toChild.Take(max)];
        _toChild.RemoveRange(0, taken.Length);
        if (taken.Length > 0)
        {
            GoOn(_sending);
        }

        return taken;
    }

    public void ChildSend(ReadOnlySpan<byte> bytes)
    {
        if (!IsDisposed && !HasEnded)
        {
            _toClient.AddRange(bytes);
            GoOn(_receiving);
        }
    }

    /// <summary>Closing over unread bytes is a reset.</summary>
    public void ChildClose()
    {
        if (!HasEnded)
        {
            HasEnded = true;
            world.Blame(Request, "its connection was ended");
            _isReset = _toChild.Count > 0;
            Wake();
        }
    }
}
