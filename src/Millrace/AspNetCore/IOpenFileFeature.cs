using Microsoft.Win32.SafeHandles;

namespace Millrace.AspNetCore;

/// <summary>Sends a file that has been opened and judged, for what goes with this server: behind its path there may be another one by now. It is the server's own body, as long as nobody has put another in its place.</summary>
internal interface IOpenFileFeature
{
    /// <summary>Ends when so many bytes of it are on their way.</summary>
    /// <exception cref="OperationCanceledException">Nobody wants them any more.</exception>
    Task SendFileAsync(SafeFileHandle file, long offset, long count, CancellationToken cancellationToken);
}
