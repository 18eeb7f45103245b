// A generation while the daemon becomes another program.

using System.Globalization;

namespace Millrace.Command.Serving;

internal sealed partial class Generation
{
    private bool _hasSuccessor;

    /// <summary>One whose processes were started before.</summary>
    public static Generation Resume(GenerationSetting its, GenerationState state)
    {
        var generation = new Generation(its, instances: 0) { _started = state.Started, _gone = (state.Restarts, state.Recycles), _hasSuccessor = state.HasSuccessor };
        AppInstance? Resume(InstanceState instance)
        {
            try
            {
                return AppInstance.Resume(its.Describe(instance.Id), instance);
            }
            catch (InstanceException error)
            {
                its.Happened(string.Create(CultureInfo.InvariantCulture, $"process {instance.Process} cannot be looked after, and is ended: {error.Message}"));
                instance.Abandon();
                return null;
            }
        }
        generation._crashes.AddRange(state.Crashes);
        foreach (var slot in state.Slots)
        {
            (slot.IsLeaving ? generation._others : generation._slots).Add(Slot.Resume(generation.SettingOfSlots, slot, Resume));
        }
        return generation;
    }

    /// <summary>Whether others take the connections of one that is being drained.</summary>
    public bool HasSuccessor => _hasSuccessor;

    /// <summary>Looks after its processes, as a fresh one does that accepts; places that are no more go on leaving. Asked once, of one that is resumed.</summary>
    public void GoOnServing()
    {
        GoOnLeaving(hasSuccessor: true);
        Array.ForEach(Slots, static slot => slot.Watch());
    }

    /// <summary>The same of one that is to be drained.</summary>
    public void GoOnLeaving(bool hasSuccessor)
    {
        Array.ForEach(All, slot => slot.GoOnLeaving(hasSuccessor));
        _leaving.AddRange(All.Except(Slots).Select(slot => Task.Run(() => DropAsync(slot, mayServe: true))));
    }

    /// <summary>Looks after its processes no more.</summary>
    public Task PauseAsync() => Task.WhenAll(All.Select(static slot => slot.PauseAsync()));

    /// <summary>No other program has come.</summary>
    public void GoOn() => Array.ForEach(Slots, static slot => slot.GoOn());

    /// <summary>For another program.</summary>
    public GenerationState State
    {
        get
        {
            lock (_lock)
            {
                return new GenerationState(
                    Number, _settings, _its.App, _its.Code?.State, _started, [.. _crashes], _gone.Restarts, _gone.Recycles, _hasSuccessor,
                    [.. _slots.Select(static slot => slot.State(isLeaving: false)), .. _others.Select(static slot => slot.State(isLeaving: true))]);
            }
        }
    }
}
