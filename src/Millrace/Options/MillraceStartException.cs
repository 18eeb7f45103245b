// The machine says no: a port in use, a socket that is alive, a missing right, no thread to be had. Text that cannot be read is a FormatException instead.

using System.Net.Sockets;

namespace Millrace;

/// <summary>
/// Millrace cannot listen where it was told to, for a reason that lies in the machine and not in the text of the address:
/// a port in use, a live socket of another process, a missing directory, right, user or group. Or the system gives it no thread
/// or descriptor for an event loop. Nothing of the server is left behind.
/// </summary>
/// <remarks>
/// It is an <see cref="IOException"/>, as what Kestrel throws for an address that is in use; then the inner exception is a <see cref="SocketException"/> that
/// says so, under ASP.NET Core within an <c>AddressInUseException</c>. The message is one sentence that says what is wrong and what to do about it. Bad text of an address is a <see cref="FormatException"/>.
/// </remarks>
public sealed class MillraceStartException : IOException
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

    /// <summary>Somebody else has the address: what applications ask for that take another one then.</summary>
    internal static MillraceStartException InUse(string message) => new(message, new SocketException((int)SocketError.AddressAlreadyInUse));
}
