// The host names of a site, as a client's Host has them. Web servers' configurations hold them as they are: what could be anything else there is no host name.

using System.Buffers;
using System.Globalization;
using System.Text;

namespace Millrace.Command;

internal static class HostName
{
    private static readonly SearchValues<char> s_inNames = SearchValues.Create("abcdefghijklmnopqrstuvwxyz0123456789.-_");
    private static readonly SearchValues<char> s_inIPv6 = SearchValues.Create("abcdef0123456789.:");

    /// <summary>In lower case: bücher.example is xn--bcher-kva.example there (RFC 5891), and an address of IPv6 stands in brackets. "*." may stand before a name.</summary>
    /// <returns>False: it is no name of the DNS, no address of IPv4, and none of IPv6 without a zone.</returns>
    public static bool TryWriteAsSent(string text, out string sent)
    {
        string wildcard = text.StartsWith("*.", StringComparison.Ordinal) ? "*." : "";
        string name = text[wildcard.Length..].ToLowerInvariant();
        sent = wildcard + name;
        switch (Uri.CheckHostName(name))
        {
            case UriHostNameType.IPv6:
                // Uri takes anything for a zone (fe80::1%eth0), line ends and braces too.
                string address = name.StartsWith('[') ? name[1..^1] : name;
                sent = $"[{address}]";
                return wildcard.Length == 0 && !address.AsSpan().ContainsAnyExcept(s_inIPv6);
            case UriHostNameType.Dns or UriHostNameType.IPv4 when TryWriteInAscii(ref name):
                sent = wildcard + name;
                return !name.StartsWith('-') && !name.EndsWith('.') && !name.AsSpan().ContainsAnyExcept(s_inNames);
            default:
                return false;
        }
    }

    private static bool TryWriteInAscii(ref string name)
    {
        try
        {
            name = Ascii.IsValid(name) ? name : new IdnMapping().GetAscii(name);
            return true;
        }
        catch (ArgumentException)
        {
            return false;
        }
    }
}
