// How a daemon becomes the program that is installed now. A program that does not say that it can go on from here is not tried; what is under way ends first, and
// what comes meanwhile is asked again there.
//
//   asked --> does the program understand the state? --> nothing is under way --> no foreign call is --> answered --> paused --> the other program
//                          | no                                                     | one is                            | it cannot be run
//                          v                                                        v                                   v
//                   all goes on as it was                                 all goes on as it was                all goes on as it was

using Millrace.Command.Terminals;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="image">What to become.</param>
/// <param name="console">Where the daemon's output goes.</param>
/// <param name="manager">Is told of it.</param>
/// <param name="stopping">Ends when the daemon is to end.</param>
internal sealed class Upgrading(CommandImage image, CommandConsole console, ServiceManager manager, Task stopping) : IDisposable
{
    private static readonly TimeSpan s_lastWords = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_again = TimeSpan.FromSeconds(10);

    private CancellationTokenSource _paused = new();
    private Daemon? _daemon;
    private ControlServer? _control;
    private SocketsOfOne? _sockets;
    private int _isUnderWay;

    /// <summary>Ends when nothing is begun any more.</summary>
    public CancellationToken Paused => _paused.Token;

    /// <summary>The daemon is there.</summary>
    public void Attach(Daemon daemon, ControlServer control, SocketsOfOne sockets) => (_sockets, _control, _daemon) = (sockets, control, daemon);

    /// <summary>What somebody has asked for, where it is begun.</summary>
    /// <exception cref="UpgradingException">It is not, and is to be asked of the other program.</exception>
    public async Task<T> UnlessPausedAsync<T>(Task<T> work)
    {
        var paused = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var registration = Paused.Register(static its => ((TaskCompletionSource)its!).TrySetResult(), paused);
        return await Task.WhenAny(work, paused.Task) == work ? await work : throw new UpgradingException();
    }

    /// <summary>Begins one: behind the answer the daemon becomes the other program, or says in its status why it has not.</summary>
    public async Task<ControlAnswer> BeginAsync()
    {
        if (_daemon is not { } daemon || Interlocked.Exchange(ref _isUnderWay, 1) == 1)
        {
            return new ControlAnswer(false, "The daemon is about to become another program, or has only just begun.");
        }
        bool isQuiet = false, isBegun = false;
        try
        {
            if (await image.WhyNotAsync(daemon.State.Write()) is { } why)
            {
                return Refuse(why);
            }
            await daemon.WaitUntilQuietAsync();
            isQuiet = true;
            ForeignCalls.Pause();       // from here on none of them begins but those that close something
            if (await StandingCalls.WhyNotAsync(StandingCalls.Patience) is { } standing)
            {
                return Refuse(standing);
            }
            isBegun = true;
        }
        finally
        {
            if (!isBegun)
            {
                if (isQuiet)
                {
                    ForeignCalls.GoOn();
                    daemon.EndQuiet();
                }
                Volatile.Write(ref _isUnderWay, 0);     // whatever has failed: the next one may be asked for
            }
        }
        daemon.UpgradeFailure = null;
        _ = Task.Run(() => UpgradeAsync(daemon));
        return new ControlAnswer(true, "the daemon becomes the program that is installed now");
    }

    public void Dispose() => _paused.Dispose();

    private ControlAnswer Refuse(string why)
    {
        console.Steady.Say($"the upgrade is not begun, and all goes on as it was: {why}");
        return new ControlAnswer(false, why);
    }

    private async Task UpgradeAsync(Daemon daemon)
    {
        string? why;
        try
        {
            await _paused.CancelAsync();
            await _control!.PauseAsync();
            var state = await daemon.PauseAsync();
            manager.TellReloading();
            console.Steady.Say("becoming the program that is installed now; the applications go on");
            await console.Steady.FlushAsync(s_lastWords);
            why = await StandingCalls.WhyNotAsync(StandingCalls.LastPatience) ?? image.Become(state with { Control = _control.State, Lock = _sockets!.Descriptor, Upgrades = state.Upgrades + 1 }, () => stopping.IsCompleted);
        }
        catch (Exception error)     // whatever it is: all goes on as it was
        {
            why = error.Message;
        }
        ForeignCalls.GoOn();
        daemon.UpgradeFailure = why;
        console.Steady.Say($"the upgrade has not come about, and all goes on as it was: {why}");
        await daemon.GoOnAsync();
        daemon.EndQuiet();
        _paused = new CancellationTokenSource();
        manager.TellReady(daemon.Summary);      // its applications are looked after, also where nobody can ask
        while (await WhyNotListeningAsync() is { } reason)
        {
            console.Steady.Say($"nobody can ask the daemon, which tries again in {s_again.TotalSeconds:0} s: {reason}");
            await Task.Delay(s_again);
        }
        Volatile.Write(ref _isUnderWay, 0);
    }

    private async Task<string?> WhyNotListeningAsync()
    {
        try
        {
            await _control!.GoOnAsync();
            return null;
        }
        catch (Exception error)     // whatever it is: it is tried again
        {
            return error.Message;
        }
    }
}

/// <summary>What was asked for is to be asked of the program that the daemon becomes.</summary>
internal sealed class UpgradingException() : Exception("The daemon is about to become another program.");
