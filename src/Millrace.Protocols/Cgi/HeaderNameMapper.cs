// Turns the name behind HTTP_ back into the header's name. The web server upper-cased it and lost the hyphens, so the customary spelling is restored, not the client's.
namespace Millrace.Protocols.Cgi;

/// <summary>Spells header names: <c>USER_AGENT</c> becomes <c>User-Agent</c> (RFC 3875 §4.1.18 the other way round).</summary>
public static class HeaderNameMapper
{
    private const int SlotCount = 512;

    // Names whose customary spelling is not "capital at the start of each word", and the names seen every day, so that these cost no allocation.
    private static readonly string[] KnownNames =
    [
        "A-IM", "Accept", "Accept-Charset", "Accept-Datetime", "Accept-Encoding", "Accept-Language", "Access-Control-Request-Headers", "Access-Control-Request-Method",
        "Alt-Used", "Authorization", "Baggage", "Cache-Control", "CDN-Loop", "CF-Connecting-IP", "CF-IPCountry", "CF-Ray", "CF-Visitor", "Content-Disposition",
        "Content-Encoding", "Content-Language", "Content-Location", "Content-MD5", "Content-Range", "Cookie", "Correlation-Context", "Date", "Depth", "Destination", "DNT",
        "DPR", "Early-Data", "ECT", "ETag", "Expect", "Forwarded", "From", "gRPC-Accept-Encoding", "gRPC-Encoding", "gRPC-Timeout", "Host", "HTTP2-Settings", "Idempotency-Key",
        "If", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive", "Last-Event-ID", "Lock-Token", "Max-Forwards", "NEL",
        "Origin", "Overwrite", "Pragma", "Prefer", "Priority", "Proxy-Authorization", "Purpose", "Range", "Referer", "Request-Id", "RTT", "Save-Data", "Sec-CH-UA",
        "Sec-CH-UA-Arch", "Sec-CH-UA-Bitness", "Sec-CH-UA-Full-Version", "Sec-CH-UA-Full-Version-List", "Sec-CH-UA-Mobile", "Sec-CH-UA-Model", "Sec-CH-UA-Platform",
        "Sec-CH-UA-Platform-Version", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Sec-GPC", "Sec-Purpose", "Sec-WebSocket-Extensions",
        "Sec-WebSocket-Key", "Sec-WebSocket-Protocol", "Sec-WebSocket-Version", "Service-Worker", "SOAPAction", "TE", "Timeout", "Traceparent", "Tracestate",
        "Upgrade", "Upgrade-Insecure-Requests", "User-Agent", "Via", "WWW-Authenticate", "X-API-Key", "X-ATT-DeviceId", "X-Client-IP", "X-Correlation-ID", "X-CSRF-Token",
        "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Forwarded-Server", "X-HTTP-Method-Override", "X-Original-URL",
        "X-Real-IP", "X-Request-ID", "X-Requested-With", "X-SSL-Client-Cert", "X-UA-Compatible", "X-UIDH", "X-WAP-Profile", "X-XSRF-TOKEN", "X-XSS-Protection",
    ];

    // Open addressing: the place in KnownNames plus one, 0 where a slot is free.
    private static readonly byte[] Slots = FillSlots();

    /// <summary>The header's name in its customary spelling. Allocates only for names that are not known.</summary>
    /// <param name="nameWithoutPrefix">The variable's name behind <c>HTTP_</c>; token characters only.</param>
    /// <returns>For instance <c>Accept-Language</c>, <c>DNT</c>, <c>X-My-Header</c>; each underscore becomes one hyphen.</returns>
    public static string FromVariable(ReadOnlySpan<byte> nameWithoutPrefix)
    {
        if (nameWithoutPrefix.IsEmpty)
        {
            return string.Empty;
        }

        for (int slot = Hash(nameWithoutPrefix); Slots[slot] != 0; slot = (slot + 1) & (SlotCount - 1))
        {
            string known = KnownNames[Slots[slot] - 1];
            if (IsVariableOf(nameWithoutPrefix, known))
            {
                return known;
            }
        }

        return string.Create(nameWithoutPrefix.Length, nameWithoutPrefix, static (name, variable) => Spell(variable, name));
    }

    private static void Spell(ReadOnlySpan<byte> variable, Span<char> name)
    {
        bool isWordStart = true;
        for (int i = 0; i < name.Length; i++)
        {
            char c = (char)variable[i];
            name[i] = c == '_' ? '-' : isWordStart ? char.ToUpperInvariant(c) : char.ToLowerInvariant(c);
            isWordStart = name[i] == '-';
        }
    }

    private static bool IsVariableOf(ReadOnlySpan<byte> variable, string name)
    {
        if (variable.Length != name.Length)
        {
            return false;
        }

        for (int i = 0; i < name.Length; i++)
        {
            if (variable[i] != VariableCharacter(name[i]))
            {
                return false;
            }
        }

        return true;
    }

    private static int Hash(ReadOnlySpan<byte> variable) =>
        ((variable.Length * 37) + (variable[0] * 11) + (variable[variable.Length / 2] * 101) + (variable[^1] * 7)) & (SlotCount - 1);

    private static byte VariableCharacter(char c) => c == '-' ? (byte)'_' : (byte)char.ToUpperInvariant(c);

    private static byte[] FillSlots()
    {
        var slots = new byte[SlotCount];
        for (int i = 0; i < KnownNames.Length; i++)
        {
            byte[] variable = Array.ConvertAll(KnownNames[i].ToCharArray(), VariableCharacter);
            int slot = Hash(variable);
            while (slots[slot] != 0)
            {
                slot = (slot + 1) & (SlotCount - 1);
            }

            slots[slot] = (byte)(i + 1);
        }

        return slots;
    }
}
