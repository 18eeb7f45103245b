// A mark in the event queue of a loop, put behind all that the queue would tell of by then. Where more is to be told than a batch has room for, whoever stands behind it may have sent in
// time what he is about to be given up for, as after a pause of the whole process: when the mark comes, he has been heard. Full batches may follow each other without end.

using Millrace.Platform;

namespace Millrace.Loops;

internal struct QueueMark
{
    private long _heardMs;
    private bool _isOnItsWay;
    private bool _hasCome;

    /// <summary>A batch was full. True: a mark is to be put, there is none on its way.</summary>
    /// <param name="heardMs">What came before that will have been heard when it comes.</param>
    public bool TryPut(long heardMs)
    {
        if (_isOnItsWay)
        {
            return false;
        }

        (_heardMs, _isOnItsWay) = (heardMs, true);
        return true;
    }

    /// <summary>An event of the batch at hand that is no descriptor's: the mark's, or that the loop was woken.</summary>
    public void Note(ulong token) => _hasCome |= token == IKernel.MarkToken;

    /// <summary>The batch at hand has been worked off. Up to when everybody has been heard, as far as a mark tells: nothing where none has come.</summary>
    public long Take()
    {
        if (!_hasCome)
        {
            return long.MinValue;
        }

        _isOnItsWay = _hasCome = false;
        return _heardMs;
    }
}
