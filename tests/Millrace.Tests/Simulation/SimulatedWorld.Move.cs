// What a process has together with others: connections that move between them, listening sockets that are inherited, and its end, by which the kernel closes
// whatever it has.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal sealed partial class SimulatedWorld
{
    private bool _hasChannel;

    /// <summary>Nothing of the process runs any more.</summary>
    public bool HasEnded { get; private set; }

    /// <summary>Another descriptor for what others have as well.</summary>
    public int Inherit(IOpenFile file) => HasEnded ? -1 : Add(file);

    public SimulatedListener ListenerAt(int descriptor) => (SimulatedListener)_descriptors[descriptor]!;

    /// <summary>A descriptor that was inherited; what is registered under it stays so as long as others have the same.</summary>
    public void CloseInherited(int descriptor)
    {
        if (Enters("close"))
        {
            Close(descriptor);
        }
    }

    /// <summary>Connections that the process has a descriptor of.</summary>
    public IEnumerable<SimulatedSocket> Sockets => _descriptors.OfType<SimulatedSocket>();

    /// <summary>The kernel closes what is open. <paramref name="isCrash"/>: what the process was in the middle of is lost, and so are its connections.</summary>
    public void End(bool isCrash)
    {
        HasEnded = true;
        for (int i = 0; i < _descriptors.Count; i++)
        {
            if (_descriptors[i] is SimulatedSocket socket && socket.Owner == this)
            {
                socket.HasLostOwner |= isCrash;
                socket.Owner = null;
            }

            if (_descriptors[i] is not null)
            {
                Close(i);
            }
        }
    }

    // False: the process has ended, and the call has no effect.
    private bool Enters(string call)
    {
        if (!HasEnded)
        {
            Observer.OnSystemCall(call);
        }

        return !HasEnded;
    }

    // ---- connections that move ----

    /// <summary>Both ends in one: what is given can be taken.</summary>
    public SimulatedChannel OpenChannel(int capacity)
    {
        _hasChannel = true;
        var channel = new SimulatedChannel { Capacity = capacity };
        channel.Descriptor = Add(channel);
        return channel;
    }

    public void Close(SimulatedChannel channel) => Close(channel.Descriptor);

    private SimulatedChannel? ChannelAt(int descriptor) => _descriptors[descriptor] is ChannelEnd end ? end.Channel : _descriptors[descriptor] as SimulatedChannel;

    /// <summary>What another process than a server of ours says of a connection that it gives; null: ours does.</summary>
    public Action<byte[]>? InGive { get; set; }

    public int Give(int channel, int descriptor, ReadOnlySpan<byte> knowledge)
    {
        if (Find(descriptor, "sendmsg") is not { } socket)
        {
            return KernelResult.Broken;
        }

        Observer.OnLoopCall("sendmsg", socket);
        int result = KernelResult.Broken;       // who takes has closed its end
        if (ChannelAt(channel) is { HasEnded: false } to)
        {
            result = to.IsFull ? KernelResult.Again : 0;
            if (result == 0)
            {
                socket.Owner = null;
                byte[] message = knowledge.ToArray();
                InGive?.Invoke(message);
                to.Enqueue(socket, message);
            }
        }

        Observer.Trace("give", descriptor, result);
        return result;
    }

    public int Take(int channel, Span<byte> knowledge, out int length)
    {
        length = 0;
        if (!Enters("recvmsg"))
        {
            return KernelResult.Again;
        }

        Observer.OnLoopCall("recvmsg", null);
        SimulatedChannel from = ChannelAt(channel)!;
        if (!from.TryDequeue(out SimulatedSocket? socket, out byte[]? known))
        {
            return from.HasEnded ? KernelResult.Broken : KernelResult.Again;
        }

        if (Open >= DescriptorsMax)
        {
            Observer.Violated($"connection {socket.Number} is lost: there is no descriptor for it");
            SimulatedMachine.Release(socket);
            return KernelResult.Again;
        }

        known.CopyTo(knowledge);
        length = known.Length;
        socket.Reader = null;
        socket.Owner = this;
        socket.Descriptor = Add(socket);
        SimulatedMachine.Release(socket);       // the message
        Observer.Trace("take", socket.Descriptor, socket.Number);
        Observer.Interleave();
        return socket.Descriptor;
    }

    // Two calls: between them others run, and the process may end.
    public void Leave(Poller poller, int descriptor)
    {
        if (Find(descriptor, "leave") is not { } socket)
        {
            return;
        }

        Observer.Trace("leave", descriptor, socket.Number);
        if (socket.RegistrationAt(Of(poller), descriptor) is { } registration)
        {
            socket.Remove(registration);
        }

        if (Enters("close"))
        {
            socket.Descriptor = socket.Descriptor == descriptor ? -1 : socket.Descriptor;
            Close(descriptor);
        }
    }
}
