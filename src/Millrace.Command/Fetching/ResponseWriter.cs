// Prints a response the same way for every protocol: status, headers, an empty line, the body as it comes.

using Millrace.Command.Terminals;

namespace Millrace.Command.Fetching;

/// <param name="console">Where to print.</param>
/// <param name="bodyOnly">Whether status and headers stay out.</param>
internal sealed class ResponseWriter(CommandConsole console, bool bodyOnly)
{
    public void WriteHead(string status, IEnumerable<string> headerLines)
    {
        if (bodyOnly)
        {
            return;
        }
        console.Output.WriteLine(console.Bold(CommandConsole.Readable(status)));
        foreach (string line in headerLines)
        {
            console.Output.WriteLine(CommandConsole.Readable(line));
        }
        console.Output.WriteLine();
    }

    public async ValueTask WriteBodyAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        await console.RawOutput.WriteAsync(bytes, ct);
        await console.RawOutput.FlushAsync(ct);
    }
}
