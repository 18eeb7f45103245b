// How far the end of an answer is on its way, while something may still happen behind it (AnswerSender.cs).

namespace Millrace.Exchanges;

internal enum EndSending : byte
{
    /// <summary>What is flushed is not all of the answer, or leaves when the request is over.</summary>
    NotBegun,

    /// <summary>What is flushed ends with the end of the answer.</summary>
    Begun,

    /// <summary>The end of the answer has left, and something still happens after it.</summary>
    Sent,
}
