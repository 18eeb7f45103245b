// A process that goes on while the daemon becomes another program: what that one has to know of it, and how it goes on there.

using System.Net.Sockets;
using System.Text;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed partial class AppInstance
{
    private static readonly TimeSpan s_keepPatience = TimeSpan.FromSeconds(20);        // an older one refuses at once; one that is late would take this daemon for gone

    private AppInstance(InstanceStart start, InstanceState state)
    {
        _start = start;
        Started = state.Started;
        ServesSince = state.ServesSince;
        Limits = new LimitsInForce(start.Settings.Limits, state.Lacking, state.DescriptorsMost);
        _group = state.Groups is { } groups ? ControlGroup.Resume(groups) : null;
        _private = Take(state.Private);
        _channel = Take(state.Channel);
        _client = PrivateSocket.HttpClient(_private.Address.Path!, EndForDescriptors);
        _process = ServedProcess.Find(state.Process, state.StartTime);
        _lifeline = state.Lifeline >= 0 ? new Socket(new SafeSocketHandle(state.Lifeline, ownsHandle: true)) : null;
        _output = start.Output.Find(state.Output);
        _error = start.Output.Find(state.Error);
        Exited = WaitForExitAsync();
    }

    /// <summary>One that was started before.</summary>
    /// <exception cref="InstanceException">What is said of it is not so.</exception>
    public static AppInstance Resume(InstanceStart start, InstanceState state) => new(start, state);

    /// <summary>What another program has to know of it.</summary>
    public InstanceState State => new(
        Id, _process.Id, _process.StartTime, Started, ServesSince, StateOf(_private), StateOf(_channel), _output?.Descriptor ?? -1, _error?.Descriptor ?? -1, Limits.Lacking, Limits.DescriptorsMost, _group?.State, _lifeline is { } lifeline ? (int)lifeline.Handle : -1);

    // Has it hold the pipes that its output goes through, and know by a connection when this daemon has gone. One that cannot goes on without.
    private async Task KeepAsync(CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ended.Token);
        limit.CancelAfter(s_keepPatience);
        var socket = UnixSocket.New();
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(_channel.Address.Path!), limit.Token);
            byte[] answer = new byte[3];
            if (TrySendPipes(socket) && await WaryStream.ReceiveAsync(socket, answer, limit.Token) == answer.Length && Encoding.ASCII.GetString(answer) == "ok\n")
            {
                (_lifeline, socket) = (socket, _lifeline);
            }
        }
        catch (DescriptorsSentException)
        {
            EndForDescriptors();
        }
        catch (Exception error) when (error is SocketException or OperationCanceledException)
        {
            // What it is told next says what is the matter, if anything is.
        }
        finally
        {
            if (socket is not null)
            {
                ForeignDescriptor.Close(socket);
            }
        }
    }

    // Open files of its own: what it does with them is no matter of the daemon's.
    private bool TrySendPipes(Socket socket)
    {
        int[] pipes = [.. new[] { _output?.Another() ?? -1, _error?.Another() ?? -1 }.Where(static pipe => pipe >= 0)];
        try
        {
            return DescriptorPassing.TrySend((int)socket.Handle, "keep\n"u8, pipes);
        }
        finally
        {
            Array.ForEach(pipes, static pipe => _ = SystemCalls.Close(pipe));
        }
    }

    // What the process has sent on it, and nobody has read, goes with it.
    private void LoseLifeline()
    {
        if (_lifeline is not null)
        {
            ForeignDescriptor.Close(_lifeline);
        }
    }

    internal static ListenerState StateOf(ListenSocket socket) => new(socket.Address.ToString(), socket.Descriptor, socket.FileIdentity);

    private static ListenSocket Take(ListenerState state) =>
        ResumedListeners.TryTake(state.Descriptor, ListenAddress.Parse(state.Address), state.File) ?? throw new InstanceException($"Descriptor {state.Descriptor} does not listen at {state.Address}.");
}
