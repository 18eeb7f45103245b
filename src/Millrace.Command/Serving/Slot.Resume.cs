// A place of a generation while the daemon becomes another program. What is on its way there is given up, and begun anew.

namespace Millrace.Command.Serving;

internal sealed partial class Slot
{
    /// <summary>One whose processes were started before.</summary>
    /// <param name="its">As for a fresh one.</param>
    /// <param name="state">What has been written of it.</param>
    /// <param name="resume">Takes a process over; null where that cannot be: another is put in its place.</param>
    public static Slot Resume(SlotSetting its, SlotState state, Func<InstanceState, AppInstance?> resume)
    {
        var slot = new Slot(its) { Restarts = state.Restarts, Recycles = state.Recycles, _current = state.Current is { } current ? resume(current) : null };
        slot._others.AddRange(state.Leaving.Select(resume).OfType<AppInstance>());
        return slot;
    }

    /// <summary>Those that leave go on with that. Asked once, of one that is resumed.</summary>
    /// <param name="hasSuccessor">Whether others serve that take connections over.</param>
    public void GoOnLeaving(bool hasSuccessor) => _leaving.AddRange(All().Where(instance => instance != Current).Select(instance => Task.Run(() => LeaveAsync(instance, hasSuccessor))));

    /// <summary>Looks after its process no more; what was to be put in its place is ended.</summary>
    public async Task PauseAsync()
    {
        await _pausing.CancelAsync();
        await _watching;
        AppInstance? unready = null;
        lock (_lock)
        {
            if (_isEmpty || _current?.ServesSince == 0)
            {
                (unready, _current) = (_current, null);
            }
        }
        unready?.Dispose();
    }

    /// <summary>No other program has come.</summary>
    public void GoOn()
    {
        _pausing.Dispose();
        _pausing = new CancellationTokenSource();
        if (!_ending.IsCancellationRequested)
        {
            Watch();
        }
    }

    /// <summary>For another program.</summary>
    /// <param name="isLeaving">Whether it is no place of its generation any more.</param>
    public SlotState State(bool isLeaving)
    {
        lock (_lock)
        {
            return new SlotState(Restarts, Recycles, _current?.State, [.. _others.Select(static instance => instance.State)], isLeaving);
        }
    }
}
