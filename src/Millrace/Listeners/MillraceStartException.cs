// The machine says no: a port in use, a socket that is alive, a missing right, no thread to be had. Text that cannot be read is a FormatException instead.

namespace Millrace;

/// <summary>
/// Millrace cannot listen where it was told to, for a reason that lies in the machine and not in the text of the address:
/// a port in use, a live socket of another process, a missing directory, right, user or group. Or the system gives it no thread
/// or descriptor for an event loop. Nothing of the server is left behind.
/// </summary>
/// <remarks>The message is one sentence that says what is wrong and what to do about it. Bad text of an address is a <see cref="FormatException"/>.</remarks>
public sealed class MillraceStartException : Exception
{
    /// <summary>Creates the exception without a message.</summary>
    public MillraceStartException()
    {
    }

    /// <summary>Creates the exception with the sentence that says what is wrong and what to do.</summary>
    /// <param name="message">What is wrong and what to do about it.</param>
    public MillraceStartException(string message)
        : base(message)
    {
    }

    /// <summary>Creates the exception with its sentence and what lies beneath it.</summary>
    /// <param name="message">What is wrong and what to do about it.</param>
    /// <param name="innerException">The cause.</param>
    public MillraceStartException(string message, Exception? innerException)
        : base(message, innerException)
    {
    }
}
