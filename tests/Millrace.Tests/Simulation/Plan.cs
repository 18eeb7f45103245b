// What one simulated request is to be: what its client sends, what its handler does, and therefore what must come back.

using System.Globalization;

namespace Millrace.Tests.Simulation;

internal enum Act
{
    Write,
    WriteAsync,
    Flush,
    Pause,
    Block,
    ReadSome,
    ReadAll,
    SendFile,
    Throw,
    Abort,
    WaitForAbort,
}

internal sealed class Plan
{
    public required string Name { get; init; }

    public required int Id { get; init; }

    public required bool KeepsConnection { get; init; }

    public required (Act Act, int Count)[] Acts { get; init; }

    public required int BodyLength { get; init; }

    public required bool AnnouncesLength { get; init; }

    public required bool DeclaresLength { get; init; }

    /// <summary>The client stops, aborts or goes away in the middle: what comes back may be less than a response.</summary>
    public bool IsDisturbed { get; set; }

    /// <summary>The body ends in bytes that are not its own.</summary>
    public bool IsGarbled { get; set; }

    /// <summary>Byte of the connection's stream where its body's records begin.</summary>
    public long BodyOffset { get; set; }

    // ---- what the handler reports ----

    public int Started { get; set; }

    public int Finished { get; set; }

    public int BodyRead { get; set; }

    public bool BodyWasWhole { get; set; }

    // ---- what must come back ----

    public int WrittenLength { get; init; }

    public bool Throws => Acts.Any(static act => act.Act == Act.Throw);

    public bool Aborts => Acts.Any(static act => act.Act == Act.Abort);

    /// <summary>The response breaks off: the connection ends without END_REQUEST.</summary>
    public bool BreaksOff { get; init; }

    public int Status => Throws && !BreaksOff ? 500 : 200;

    // Every byte of a body says whose it is and where it stands.
    private static uint Hash(string name)
    {
        uint hash = 2166136261;
        foreach (char c in name)
        {
            hash = (hash ^ c) * 16777619;
        }

        return hash;
    }

    private static byte ByteAt(uint hash, int position) => (byte)(((hash ^ (uint)(position >> 2)) * 2654435761) >> (8 + ((position & 3) * 5)));

    public static void Fill(string name, int position, Span<byte> bytes)
    {
        uint hash = Hash(name);
        for (int i = 0; i < bytes.Length; i++)
        {
            bytes[i] = ByteAt(hash, position + i);
        }
    }

    public static byte[] Bytes(string name, int position, int count)
    {
        byte[] bytes = new byte[count];
        Fill(name, position, bytes);
        return bytes;
    }

    public static bool Matches(string name, int position, ReadOnlySpan<byte> bytes)
    {
        uint hash = Hash(name);
        for (int i = 0; i < bytes.Length; i++)
        {
            if (bytes[i] != ByteAt(hash, position + i))
            {
                return false;
            }
        }

        return true;
    }

    public string RequestPattern => Name + "<";

    public string ResponsePattern => Name + ">";

    public override string ToString() => string.Create(CultureInfo.InvariantCulture,
        $"{Name} id {Id}{(KeepsConnection ? " keep" : "")}{(IsDisturbed ? " disturbed" : "")}{(BreaksOff ? " breaks off" : "")} body {BodyLength}{(AnnouncesLength ? "" : " unannounced")}: {string.Join(' ', Acts.Select(static act => $"{act.Act}({act.Count})"))}");
}
