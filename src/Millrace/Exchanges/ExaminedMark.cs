// How far an application has looked into a body without taking it. A pipe lets nobody go back behind that: whoever takes less, or nothing, has looked as far all the same.

using System.Buffers;

namespace Millrace.Exchanges;

internal struct ExaminedMark
{
    private SequencePosition _to;
    private bool _isAhead;

    public void Note(SequencePosition consumed, SequencePosition examined)
    {
        _to = examined;
        _isAhead = !examined.Equals(consumed);
    }

    /// <summary>How far somebody who has consumed so much has looked at least.</summary>
    public readonly SequencePosition From(in ReadOnlySequence<byte> buffer, SequencePosition consumed)
    {
        if (!_isAhead)
        {
            return consumed;
        }

        try
        {
            return buffer.GetOffset(_to) > buffer.GetOffset(consumed) ? _to : consumed;
        }
        catch (ArgumentOutOfRangeException)
        {
            return consumed;        // where it lay has been consumed
        }
    }
}
