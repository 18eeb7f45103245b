// A file of SimulatedWorld.Files as a response body: its number stands for the descriptor that the kernel would be given.

using Microsoft.Win32.SafeHandles;
using Millrace.Exchanges;

namespace Millrace.Tests.Simulation;

internal static class SimulatedFile
{
    /// <summary>Sends the first bytes of a file, as a handler does.</summary>
    public static async Task SendSimulatedFileAsync(this Exchange exchange, int file, long count, CancellationToken cancellationToken = default)
    {
        using var handle = new SafeFileHandle(file, ownsHandle: false);
        long ticket = exchange.Ticket;
        await exchange.Writes.While(exchange.File.SendAsync(handle, 0, count, FileExtent.Counted, ticket, cancellationToken), ticket, cancellationToken);
    }
}
