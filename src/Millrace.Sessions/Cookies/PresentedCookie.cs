// cookie = token [ "." seal ]     token: 22 characters, the secret of the session; seal: its first values, encrypted and authenticated (SessionSeal)
//
// What came is text from a stranger: it is a cookie of ours by its form, or it is none. Nothing is decrypted here.

namespace Millrace.Sessions.Cookies;

internal enum CookieForm
{
    /// <summary>The request has none.</summary>
    None,

    /// <summary>It has one that can be read.</summary>
    Ours,

    /// <summary>What it has is too long, or no cookie of ours.</summary>
    Malformed,
}

internal readonly record struct PresentedCookie(CookieForm Form, SessionToken Token, string? Seal)
{
    /// <summary>Browsers keep no more of one cookie (RFC 6265 §6.1).</summary>
    public const int LengthMax = 4096;

    public static PresentedCookie Read(string? value)
    {
        if (string.IsNullOrEmpty(value))
        {
            return default;
        }
        bool hasSeal = value.Length > SessionToken.Length + 1 && value[SessionToken.Length] == '.';
        bool isOurs = value.Length <= LengthMax && (hasSeal || value.Length == SessionToken.Length);
        return isOurs && SessionToken.TryParse(value.AsSpan(0, SessionToken.Length), out SessionToken token)
            ? new PresentedCookie(CookieForm.Ours, token, hasSeal ? value[(SessionToken.Length + 1)..] : null)
            : new PresentedCookie(CookieForm.Malformed, default, null);
    }
}
