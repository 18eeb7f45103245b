// The simulated kernel as loops see it.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal readonly struct SimulatedKernel(SimulatedWorld world) : IKernel
{
    public long NowMs => world.NowMs;

    public Poller OpenPoller() => world.OpenPoller();

    public void ClosePoller(Poller poller) => world.ClosePoller(poller);

    public int Wait(Poller poller, PollEvent[] events, int timeoutMs, Waking waking) => world.Wait(poller, events, timeoutMs);

    public void Wake(Poller poller) => world.Wake(poller);

    public void Mark(Poller poller) => world.Mark(poller);

    public bool Watch(Poller poller, int descriptor, ulong token, bool writing) => world.Watch(poller, descriptor, token, writing);

    public void Rewatch(Poller poller, int descriptor, ulong token, bool writing) => world.Rewatch(poller, descriptor, writing);

    public bool WatchListener(Poller poller, int descriptor, ulong token, bool shared) => world.WatchListener(poller, descriptor, token, shared);

    public void Unwatch(Poller poller, int descriptor) => world.Unwatch(poller, descriptor);

    public int NextDescriptor(Poller poller) => world.NextDescriptor;

    public int Accept(int listener, bool isFirst, Span<byte> peer, out int peerLength) => world.Accept(listener, peer, out peerLength);

    public int Connect(ReadOnlySpan<byte> address) => world.ConnectTo(address);

    public int Receive(int descriptor, Span<byte> buffer) => world.Receive(descriptor, buffer);

    public int Send(int descriptor, ReadOnlySpan<byte> bytes, bool more) => world.Send(descriptor, bytes);

    public int SendFile(int descriptor, int file, ref long offset, int count) => world.SendFile(descriptor, file, ref offset, count);

    public void MakeRoom(int descriptor) => world.MakeRoom(descriptor);

    public int ReadFile(int file, long offset, Span<byte> bytes) => world.ReadFile(file, offset, bytes);

    public int Unsent(int descriptor) => world.Unsent(descriptor);

    public int Unread(int descriptor) => world.Unread(descriptor);

    public void Shutdown(int descriptor, bool both) => world.Shutdown(descriptor, both);

    public void EndReceiving(int descriptor) => world.EndReceiving(descriptor);

    public void Reset(int descriptor) => world.Reset(descriptor);

    public int Give(int channel, int descriptor, ReadOnlySpan<byte> knowledge) => world.Give(channel, descriptor, knowledge);

    public int Take(int channel, Span<byte> knowledge, out int length, out int[] strange)
    {
        strange = [];
        return world.Take(channel, knowledge, out length);
    }

    public bool IsTcp(int descriptor) => world.IsTcp(descriptor);

    public void Leave(Poller poller, int descriptor) => world.Leave(poller, descriptor);

    public void Close(int descriptor, bool reset, bool mayLinger = true) => world.Close(descriptor, reset);
}
