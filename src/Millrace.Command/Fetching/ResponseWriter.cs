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
        console.Output.WriteLine(console.Bold(Readable(status)));
        foreach (string line in headerLines)
        {
            console.Output.WriteLine(Readable(line));
        }
        console.Output.WriteLine();
    }

    /// <summary>Text of the server's without anything that a terminal would obey.</summary>
    /// <param name="text">A line, or several where <paramref name="keepsLines"/> says so.</param>
    /// <param name="keepsLines">Whether line feeds stay.</param>
    public static string Readable(string text, bool keepsLines = false) =>
        string.Concat(text.Select(c => char.IsControl(c) && c != '\t' && !(keepsLines && c == '\n') ? '\uFFFD' : c));

    public async ValueTask WriteBodyAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        await console.RawOutput.WriteAsync(bytes, ct);
        await console.RawOutput.FlushAsync(ct);
    }
}
