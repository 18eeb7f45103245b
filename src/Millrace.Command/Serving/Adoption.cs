// Processes that have outlived their daemon, as the next one finds them: what they are is what that daemon has written into its own folder, and never what they say;
// of them come only the descriptors, and those are looked at. One that does not give them is ended, since nobody could look after it. Whatever comes may be anything, and to look
// at it, or to close it, take as long as somebody likes: both is done on other threads, and no process is waited for beyond its time.

using System.Collections.Concurrent;
using System.Globalization;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="folder">Of the daemon's sockets; this process has it, and it belongs to its user alone.</param>
/// <param name="say">Is told what becomes of them, a sentence each.</param>
internal sealed class Adoption(string folder, Action<string> say)
{
    private const int First = 6;        // of the descriptors that it accepts on
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    private readonly ConcurrentDictionary<string, Given> _given = new(StringComparer.Ordinal);

    /// <param name="Lifeline">The connection to the process; as long as it is open this daemon is there.</param>
    /// <param name="Descriptors">In the order of DaemonLife in the start-up hook.</param>
    private sealed record Given(int Lifeline, int[] Descriptors);

    /// <summary>What there is to go on with; null where no daemon has ended without a word.</summary>
    public async Task<DaemonState?> TakeAsync()
    {
        var state = StateFile.Read(folder, out var strangers);
        await Task.WhenAll(strangers.Select(its => EndAsync(its, $"process {its.Process} of the daemon before this one is ended: what that has written down is not understood, as it may be of another version")));
        if (state is not { Apps.Count: > 0 })
        {
            return null;
        }
        return state with { Since = DateTimeOffset.UtcNow, Upgrades = 0, Control = null, Lock = -1, Apps = await Task.WhenAll(state.Apps.Select(TakeAsync)) };
    }

    private async Task<AppSaved> TakeAsync(AppSaved app)
    {
        InstanceState[] all = [.. app.Instances.OrderByDescending(instance => app.Current?.Slots.Any(slot => slot.Current?.Id == instance.Id) == true)];      // one that is being drained may have what was opened before
        await Task.WhenAll(all.Select(instance => TakeAsync(app, instance)));
        Given[] given = [.. all.Select(instance => _given.GetValueOrDefault(instance.Id)).OfType<Given>()];
        CloseSame(given.Skip(1).Select(static its => its.Descriptors));
        var current = app.Current is { } its ? Patch(its) : null;
        bool isServed = current?.Slots.Any(static slot => slot.Current is not null) == true;
        var left = app.Leaving.Append(isServed ? null : current).OfType<GenerationState>().Select(Patch).Where(static generation => generation.Slots.Any(static slot => slot.Current is not null || slot.Leaving.Count > 0));
        int served = given.Length;
        if (served > 0)
        {
            say(string.Create(CultureInfo.InvariantCulture, $"{app.Settings.Name}: {served} {(served == 1 ? "process" : "processes")} of the daemon before this one {(served == 1 ? "goes" : "go")} on"));
        }
        return app with
        {
            Listeners = served == 0 ? null : new ListenersState([.. app.Listeners!.Sockets.Select((socket, i) => socket with { Descriptor = given[0].Descriptors[First + i] })], given[0].Descriptors[0], given[0].Descriptors[1], app.Listeners.StoredAs),
            Current = isServed ? current : null,
            Leaving = [.. left],
            Kept = null,
            Pipes = [.. given.SelectMany(static its => its.Descriptors[4..First]).Select(static pipe => new PipeState(pipe, []))],
        };
    }

    // The first has given the same. What these have given may be anything of that kind.
    internal static void CloseSame(IEnumerable<int[]> others) => ForeignDescriptor.Close([.. others.SelectMany(static its => its[First..].Concat(its[..2]))]);

    private GenerationState Patch(GenerationState generation) => generation with { HasSuccessor = true, Slots = [.. generation.Slots.Select(Patch)] };

    // One that has perhaps not been told to accept was on its way.
    private SlotState Patch(SlotState slot)
    {
        var current = slot.Current is { } its ? Patch(its) : null;
        bool isOnItsWay = current?.ServesSince == 0;
        return slot with { Current = isOnItsWay ? null : current, Leaving = [.. slot.Leaving.Select(Patch).Append(isOnItsWay ? current : null).OfType<InstanceState>()] };
    }

    private InstanceState? Patch(InstanceState instance) => !_given.TryGetValue(instance.Id, out var given) ? null : instance with
    {
        Private = instance.Private with { Descriptor = given.Descriptors[2] },
        Channel = instance.Channel with { Descriptor = given.Descriptors[3] },
        Output = given.Descriptors[4],
        Error = given.Descriptors[5],
        Lifeline = given.Lifeline,
    };

    private async Task TakeAsync(AppSaved app, InstanceState instance)
    {
        if (ServedProcess.StartTimeOf(instance.Process) != instance.StartTime)
        {
            return;     // it has ended, and the number may be anybody's
        }
        string? why = app.Listeners is null ? "its addresses are not known" : null;
        try
        {
            why ??= await AskAsync(app.Listeners!, instance);
        }
        catch (Exception error) when (error is SocketException or IOException)
        {
            why = error.Message;
        }
        catch (Exception error) when (error is OperationCanceledException or StandstillException)
        {
            why = string.Create(CultureInfo.InvariantCulture, $"it has not answered within {s_patience.TotalSeconds:0} s");
        }
        if (why is not null)
        {
            await EndAsync(new ProcessName(instance.Process, instance.StartTime), $"{app.Settings.Name}: process {instance.Process} of the daemon before this one is ended: {why}");
        }
    }

    private async Task EndAsync(ProcessName its, string why)
    {
        try
        {
            using var process = ServedProcess.Find(its.Process, its.StartTime);
            if (!process.Ended.IsCompleted)
            {
                say(why);
                process.Signal(Posix.SigKill);
                await Task.WhenAny(process.Ended, Task.Delay(s_patience));
            }
        }
        catch (InstanceException error)
        {
            say($"{why}; it is not: {error.Message}");
        }
    }

    // Null: it has given all there is.
    internal async Task<string?> AskAsync(ListenersState listeners, InstanceState instance)
    {
        using var limit = new CancellationTokenSource(s_patience);
        var socket = UnixSocket.NewTaking();
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(Path.Combine(folder, instance.Id + ".channel")), limit.Token);
            if (DescriptorPassing.Peer((int)socket.Handle).Process != instance.Process)
            {
                return "another process answers in its place";
            }
            await socket.SendAsync(Encoding.ASCII.GetBytes("give\n"), limit.Token);
            await socket.ReceiveAsync(Memory<byte>.Empty, limit.Token);
            var (given, why) = await new PatientLook(s_patience).AtAsync("what " + instance.Id + " has sent", () => Receive(socket.SafeHandle, listeners, instance), limit.Token, static late => Leave(late.Given));
            if (given is not null)
            {
                _given[instance.Id] = given;
            }
            return why;
        }
        finally
        {
            ForeignDescriptor.Close(socket);
        }
    }

    private static (Given? Given, string? Why) Receive(SafeHandle socket, ListenersState listeners, InstanceState instance)
    {
        bool isHeld = false;
        socket.DangerousAddRef(ref isHeld);     // whoever has asked may not wait any more
        try
        {
            int its = (int)socket.DangerousGetHandle();
            byte[] text = new byte[256];
            int count = DescriptorPassing.Receive(its, text, out int[] descriptors);
            _ = PassedDescriptors.Refuse(its);      // there is no more to come
            string answer = Encoding.ASCII.GetString(text, 0, Math.Max(0, count)).TrimEnd();
            int lifeline = answer == "ok" && IsRight(listeners, instance, descriptors) ? SystemCalls.Fcntl(its, SystemCalls.F_DUPFD_CLOEXEC, 3) : -1;      // the socket closes its own
            if (lifeline >= 0)
            {
                return (new Given(lifeline, descriptors), null);
            }
            ForeignDescriptor.Close(descriptors);
            return (null, answer == "ok" ? "what it has given is not what the daemon had" : answer.Length == 0 ? "it has not answered" : $"it says: {answer.TrimStart('!', ' ')}");
        }
        finally
        {
            socket.DangerousRelease();
        }
    }

    private static void Leave(Given? given)
    {
        if (given is not null)
        {
            ForeignDescriptor.Close([given.Lifeline, .. given.Descriptors]);
        }
    }

    private static bool IsRight(ListenersState listeners, InstanceState instance, int[] descriptors) =>
        descriptors.Length == First + listeners.Sockets.Count
        && Array.TrueForAll(descriptors[..2], AppListeners.IsChannel)
        && ResumedListeners.IsAt(descriptors[2], ListenAddress.Parse(instance.Private.Address))
        && ResumedListeners.IsAt(descriptors[3], ListenAddress.Parse(instance.Channel.Address))
        && Array.TrueForAll(descriptors[4..First], PipeEnd.TryRenew)
        && listeners.Sockets.Select((socket, i) => ResumedListeners.IsAt(descriptors[First + i], ListenAddress.Parse(socket.Address))).All(static isAt => isAt)
        && !Array.Exists(descriptors[First..], Posix.HasHungUp);       // a daemon that was about to end has closed them
}
