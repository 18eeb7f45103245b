// Names of connections, in the form that Kestrel gives them: 13 digits of base 32. They count on from the time at which the
// process began, in steps of 100 ns, and no server accepts so many connections: a start later never repeats one.

namespace Millrace.Exchanges;

internal static class ConnectionIds
{
    private const string Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUV";

    private static long s_last = DateTime.UtcNow.Ticks;

    public static string Next() => string.Create(13, Interlocked.Increment(ref s_last), static (text, number) =>
    {
        for (int i = text.Length - 1; i >= 0; i--)
        {
            text[i] = Digits[(int)(number & 31)];
            number >>>= 5;
        }
    });
}
