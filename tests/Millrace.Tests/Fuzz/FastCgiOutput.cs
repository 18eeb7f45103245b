// Whether bytes that a FastCGI responder sent are well-formed: records of the types it may send, streams that end once, a
// request's end behind its streams (FastCGI 1.0 §3.3, §5.5). Written from the specification, apart from the server's code.

using System.Buffers.Binary;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal static class FastCgiOutput
{
    /// <summary>Null, or what is wrong. An open connection may not have stopped in the middle of a record.</summary>
    public static string? Fault(ReadOnlySpan<byte> bytes, bool open)
    {
        int current = -1;
        while (bytes.Length >= 8)
        {
            int id = BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]);
            int length = BinaryPrimitives.ReadUInt16BigEndian(bytes[4..]);
            byte type = bytes[1];
            if (!open && bytes.Length == 8 && !bytes.ContainsAnyExcept((byte)0))
            {
                return null;    // the last that is sent: the head of no record says that a response is not whole
            }

            if (bytes[0] != 1 || bytes[7] != 0)
            {
                return $"a record with version {bytes[0]}";
            }

            if (bytes.Length < 8 + length + bytes[6])
            {
                break;
            }

            ReadOnlySpan<byte> content = bytes.Slice(8, length);
            bool isManagement = type is Wire.GetValuesResult or Wire.UnknownType;
            if (type is not (Wire.Stdout or Wire.Stderr or Wire.End) && !isManagement || isManagement != (id == 0))
            {
                return $"a record of type {type} with id {id}";
            }

            if (type == Wire.End && (length != 8 || content[5..].ContainsAnyExcept((byte)0)))
            {
                return "END_REQUEST that is not 8 bytes with three zeros at the end";
            }

            if (type is Wire.Stdout or Wire.Stderr)
            {
                if (current >= 0 && current != id)
                {
                    return $"output of id {id} in the middle of that of id {current}";
                }

                current = id;
            }
            else if (type == Wire.End && id == current)
            {
                current = -1;
            }

            bytes = bytes[(8 + length + bytes[6])..];
        }

        // A response that broke off ends with a byte that begins no record.
        return bytes.IsEmpty || !open ? null : $"a record that stops after {bytes.Length} bytes";
    }
}
