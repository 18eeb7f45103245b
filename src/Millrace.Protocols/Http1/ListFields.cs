// Comma-separated lists that matter to the connection: Connection and Transfer-Encoding.
//
//   #element => [ element ] *( OWS "," OWS [ element ] )     (RFC 9110 §5.6.1)

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Http1;

/// <summary>The connection options this layer acts on (RFC 9110 §7.6.1).</summary>
[Flags]
internal enum ConnectionOptions : byte
{
    None = 0,
    Close = 1,
    KeepAlive = 2,
    Upgrade = 4,
}

internal static class ConnectionField
{
    /// <summary>The options of one Connection line; false if an element is no token. Empty elements are allowed.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static bool TryRead(ReadOnlySpan<byte> value, out ConnectionOptions options)
    {
        // One word is what nearly every client sends.
        options = OptionOf(value);
        return options != ConnectionOptions.None || TryReadList(value, out options);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static bool TryReadList(ReadOnlySpan<byte> value, out ConnectionOptions options)
    {
        options = ConnectionOptions.None;
        while (!value.IsEmpty)
        {
            ReadOnlySpan<byte> element = ListFields.NextElement(ref value);
            if (!Ascii.IsToken(element) && !element.IsEmpty)
            {
                return false;
            }

            options |= OptionOf(element);
        }

        return true;
    }

    private static ConnectionOptions OptionOf(ReadOnlySpan<byte> word) => word.Length switch
    {
        5 => Ascii.EqualsLowerCase(word, "close"u8) ? ConnectionOptions.Close : ConnectionOptions.None,
        7 => Ascii.EqualsLowerCase(word, "upgrade"u8) ? ConnectionOptions.Upgrade : ConnectionOptions.None,
        10 => IsKeepAlive(ref MemoryMarshal.GetReference(word)) ? ConnectionOptions.KeepAlive : ConnectionOptions.None,
        _ => ConnectionOptions.None,
    };

    /// <summary>Whether the ten bytes from here on, none of them a control, are "keep-alive" in any case: bit 5 then folds letters only.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static bool IsKeepAlive(ref byte first) =>
        (Unsafe.ReadUnaligned<ulong>(ref first) | 0x2020202020202020) == MemoryMarshal.Read<ulong>("keep-alive"u8) &&
        (Unsafe.ReadUnaligned<ushort>(ref Unsafe.Add(ref first, 8)) | 0x2020) == MemoryMarshal.Read<ushort>("ve"u8);
}

internal static class TransferCodings
{
    /// <summary>Why a Transfer-Encoding other than exactly "chunked" is refused (RFC 9112 §6.1).</summary>
    internal static Http1Fault FaultOf(ReadOnlySpan<byte> value)
    {
        bool chunkedSeen = false;
        bool chunkedNotFinal = false;
        if (value.EndsWith(","u8))
        {
            return Http1Fault.TransferEncodingSyntax;
        }

        do
        {
            ReadOnlySpan<byte> coding = ListFields.NextElement(ref value);
            if (!Ascii.IsToken(coding))
            {
                return Http1Fault.TransferEncodingSyntax;
            }

            chunkedNotFinal |= chunkedSeen;
            chunkedSeen |= Ascii.EqualsLowerCase(coding, "chunked"u8);
        }
        while (!value.IsEmpty);
        return chunkedNotFinal ? Http1Fault.ChunkedNotFinal : Http1Fault.TransferEncodingUnknown;
    }
}

internal static class ListFields
{
    /// <summary>Cuts the first list element and its comma off, white space around it removed. The list is empty when nothing is left behind a comma.</summary>
    internal static ReadOnlySpan<byte> NextElement(scoped ref ReadOnlySpan<byte> list)
    {
        int comma = list.IndexOf((byte)',');
        ReadOnlySpan<byte> element = comma < 0 ? list : list[..comma];
        list = comma < 0 ? default : list[(comma + 1)..];
        return Ascii.TrimOptionalWhiteSpace(element);
    }
}
