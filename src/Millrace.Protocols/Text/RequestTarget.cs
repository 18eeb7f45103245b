// Judges a request target as a whole (RFC 9112 §3.2). Splitting and decoding it is in TargetPath.
namespace Millrace.Protocols.Text;

/// <summary>The four forms of a request target and the methods that may use them (RFC 9112 §3.2).</summary>
public static class RequestTarget
{
    // request-target = origin-form / absolute-form / authority-form / asterisk-form
    /// <summary>
    /// Whether <paramref name="target"/> is made of visible ASCII, without a fragment and without a backslash in its path, and has a form that <paramref name="method"/> allows: the authority form with CONNECT and only with it,
    /// the asterisk only with OPTIONS, the absolute form with http or https and a host.
    /// </summary>
    /// <param name="target">The target as sent.</param>
    /// <param name="method">The method as sent; methods are case-sensitive.</param>
    /// <returns>False for the empty target.</returns>
    public static bool IsValid(ReadOnlySpan<byte> target, ReadOnlySpan<byte> method)
    {
        if (target.IsEmpty || !Ascii.IsVisible(target) || HasMisleading(target))
        {
            return false;
        }

        if (method.SequenceEqual("CONNECT"u8))
        {
            // authority-form = uri-host ":" port
            return target[^1] is >= (byte)'0' and <= (byte)'9' && target.Contains((byte)':') && HostValue.IsValid(target);
        }

        if (target[0] == '/')
        {
            return true;
        }

        if (target.SequenceEqual("*"u8))
        {
            return method.SequenceEqual("OPTIONS"u8);
        }

        int authorityStart = TargetPath.AuthorityStart(target);
        if (authorityStart == 0)
        {
            return false;
        }

        ReadOnlySpan<byte> rest = target[authorityStart..];
        int authorityLength = rest.IndexOfAny((byte)'/', (byte)'?');
        return HostValue.IsValid(authorityLength < 0 ? rest : rest[..authorityLength]);
    }

    /// <summary>Whether Host names the authority that CONNECT asks for: the same in any case, or the same without the port (RFC 9112 §3.2.3, RFC 9110 §7.2).</summary>
    /// <param name="authority">A valid target in authority form.</param>
    /// <param name="host">A valid value of Host.</param>
    /// <returns>False where the two are for different servers.</returns>
    public static bool IsSameAuthority(ReadOnlySpan<byte> authority, ReadOnlySpan<byte> host) =>
        authority.Length >= host.Length
        && (authority.Length == host.Length || (authority[host.Length] == ':' && authority.LastIndexOf((byte)':') == host.Length))
        && System.Text.Ascii.EqualsIgnoreCase(authority[..host.Length], host);

    // No target has a fragment (RFC 9112 §3.2.1): one server ends the path there, the other reads on. Some take a backslash for a slash.
    private static bool HasMisleading(ReadOnlySpan<byte> target)
    {
        int odd = target.IndexOfAny((byte)'#', (byte)'\\');
        return odd >= 0 && (target.Contains((byte)'#') || !target[..odd].Contains((byte)'?'));
    }
}
