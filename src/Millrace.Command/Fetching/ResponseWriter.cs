// Prints a response the same way for every protocol: status, headers, an empty line, the body as it comes. The body may go to a file.

using System.Runtime.InteropServices;
using System.Text;
using System.Text.Unicode;
using Microsoft.Win32.SafeHandles;
using Millrace.Command.Terminals;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Fetching;

/// <param name="console">Where to print.</param>
/// <param name="bodyOnly">Whether status and headers stay out.</param>
/// <param name="file">Where the body goes; null: it is printed. Written anew with the head of the response, not before.</param>
internal sealed class ResponseWriter(CommandConsole console, bool bodyOnly, string? file = null) : IDisposable
{
    private const uint ModeOfNew = 0x1B6;           // 0666, less the umask

    private SafeFileHandle? _file;
    private Stream? _body;

    /// <param name="status">Each character a byte.</param>
    /// <param name="headerLines">The same.</param>
    /// <exception cref="CommandFailure">The file cannot be written.</exception>
    public void WriteHead(string status, IEnumerable<string> headerLines)
    {
        _body ??= file is null ? console.RawOutput : Create(file);
        if (bodyOnly)
        {
            return;
        }
        console.Output.WriteLine(console.Bold(CommandConsole.Readable(TextOf(status))));
        foreach (string line in headerLines)
        {
            console.Output.WriteLine(CommandConsole.Readable(TextOf(line)));
        }
        console.Output.WriteLine();
    }

    // Bytes beyond ASCII may stand in a field (RFC 9110 §5.5), and nothing says what they mean: where they are UTF-8 they are meant so.
    private static string TextOf(string bytes)
    {
        byte[] its = Encoding.Latin1.GetBytes(bytes);
        return Utf8.IsValid(its) ? Encoding.UTF8.GetString(its) : bytes;
    }

    public async ValueTask WriteBodyAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        await _body!.WriteAsync(bytes, ct);
        await _body.FlushAsync(ct);
    }

    public void Dispose() => _file?.Dispose();

    // Not through a link, which somebody may have put where the file is to be.
    private unsafe DescriptorStream Create(string path)
    {
        int flags = SystemCalls.O_WRONLY | SystemCalls.O_CREAT | SystemCalls.O_TRUNC | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW;
        fixed (byte* at = FileFacts.Encode(Path.GetFullPath(path)))
        {
            int descriptor = SystemCalls.CreateAt(SystemCalls.AT_FDCWD, at, flags, ModeOfNew);
            if (descriptor < 0)
            {
                int errno = SystemCalls.Errno;
                string why = errno == SystemCalls.ELOOP ? "it is a link. Name the file it leads to" : Marshal.GetPInvokeErrorMessage(errno);
                throw new CommandFailure(ExitCode.Failure, $"The file '{path}' cannot be written: {why}.");
            }
            _file = new SafeFileHandle(descriptor, ownsHandle: true);
            return new DescriptorStream(descriptor, $"The file '{path}'");
        }
    }
}
