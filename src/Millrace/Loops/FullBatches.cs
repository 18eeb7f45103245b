// Batches of events with no room left, behind which somebody may stand who has sent in time what he is about to be given up for, as after a pause of the whole
// process. The kernel tells of descriptors in turns (epoll_wait(2): round robin): when there have been as many events as there are descriptors, whoever had
// something to say before the first of these batches has been heard. From then on it counts for all how late it was before that, be there full batches without end.

namespace Millrace.Loops;

internal struct FullBatches
{
    private long _sinceMs;
    private int _left;      // events to come until all have been heard; 0: no batch is full, or the last has been the last of them

    /// <summary>One has been worked off that was not full: everybody has been heard.</summary>
    public void End() => _left = 0;

    /// <summary>A full one has been worked off. Answers up to when everybody has been heard, which is nothing that has not been said before as long as some stand behind it.</summary>
    /// <param name="events">In it.</param>
    /// <param name="descriptors">Of which each has an event at most before all others that have something to say have had theirs.</param>
    /// <param name="heardMs">What came before that it would have told of if there had been room.</param>
    public long Add(int events, int descriptors, long heardMs)
    {
        (_sinceMs, _left) = _left == 0 ? (heardMs, descriptors) : (_sinceMs, _left);
        _left = Math.Max(0, _left - events);
        return _left == 0 ? _sinceMs : long.MinValue;
    }
}
