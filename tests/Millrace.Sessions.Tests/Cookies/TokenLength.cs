namespace Millrace.Sessions.Tests;

internal static class Cookies
{
    public const int TokenLength = Millrace.Sessions.Cookies.SessionToken.Length;
}
