// A piece of a body as records of STDIN.

using System.Buffers;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal static class BodyPieces
{
    /// <summary>Appends it; nothing where it is empty, since a record without content would end the stream.</summary>
    public static void AppendPiece(this RecordWriter writer, ReadOnlySequence<byte> bytes)
    {
        if (bytes.IsEmpty)
        {
            return;
        }
        writer.BeginStream(RecordType.Stdin);
        foreach (ReadOnlyMemory<byte> piece in bytes)
        {
            writer.Append(piece.Span);
        }
        writer.Pause();
    }
}
