// What one simulated request is to be: what its client sends, what its handler does, and therefore what must come back.

using System.Buffers.Binary;
using System.Globalization;

namespace Millrace.Tests.Simulation;

internal enum Act
{
    Write,
    WriteAsync,
    Flush,
    Pause,
    Sleep,
    Block,
    ReadSome,
    ReadAll,
    ReadPipe,
    LeaveRead,
    SendFile,
    SendShortFile,
    SendBrokenFile,
    Throw,
    Abort,
    WaitForAbort,
    AskToClose,
    Upgrade,
    End,
    Complete,
    AwaitAnswer,
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
    public bool IsDisturbed { get => field || IsCutOff; set; }

    // The server has ended its receiving in the middle of the request, and its client knows: what is missing was not taken.
    private bool IsCutOff => Socket is { ReceivingEnded: true } && Socket.Arrived < StreamEnd;

    /// <summary>The body ends in bytes that are not its own.</summary>
    public bool IsGarbled { get; set; }

    /// <summary>Byte of the connection's stream where what carries its body begins.</summary>
    public long BodyOffset { get; set; }

    /// <summary>Byte of the connection's stream where its head begins; an empty line ahead of it is no part of it.</summary>
    public long HeadStart { get; set; }

    /// <summary>Byte of the connection's stream where the request ends.</summary>
    public long StreamEnd { get; set; }

    private readonly List<(long Start, int Bytes)> _pieces = [];

    /// <summary>From <paramref name="start"/> on the connection's stream has <paramref name="bytes"/> bytes of its body, and then something else.</summary>
    public void AddPiece(long start, int bytes) => _pieces.Add((start, bytes));

    /// <summary>Bytes of its body among those of the connection's stream before <paramref name="end"/>.</summary>
    public long BodyBefore(long end) => _pieces.Sum(piece => Math.Clamp(end - piece.Start, 0, piece.Bytes));

    /// <summary>Bytes that carry the body without being it, where a server may have to keep its place by them.</summary>
    public long BodyOverhead { get; set; }

    /// <summary>Its connection, once there is one.</summary>
    public SimulatedSocket? Socket { get; set; }

    // ---- HTTP/1.1 ----

    public bool IsHead { get; init; }

    public bool IsHttp10 { get; init; }

    /// <summary>The client waits for 100 before it sends the body.</summary>
    public bool ExpectsContinue { get; init; }

    public bool IsChunked { get; init; }

    /// <summary>The chunked body ends with a trailer field.</summary>
    public bool HasTrailer { get; init; }

    /// <summary>The connection becomes a tunnel that gives back what is sent.</summary>
    public bool IsTunnel { get; init; }

    public int TunnelLength { get; init; }

    /// <summary>Byte of the connection's stream where its head ends.</summary>
    public long HeadEnd { get; set; }

    /// <summary>What its length announces has all been written when its handler begins to wait for an abort: a front server that begins the next request then has its answer, and gives nothing up.</summary>
    public bool IsWholeBeforeAbort =>
        DeclaresLength && Array.FindIndex(Acts, static act => act.Act == Act.WaitForAbort) is >= 0 and var at && PlanMaker.WrittenBy(Acts[..at]) == WrittenLength;

    /// <summary>The application asks for the connection to end with this response.</summary>
    public bool AsksToClose => Acts.Any(static act => act.Act == Act.AskToClose);

    /// <summary>The handler asks for the body before it begins its response.</summary>
    public bool ReadsFirst
    {
        get
        {
            int read = Array.FindIndex(Acts, static each => each.Act is Act.ReadSome or Act.ReadAll);
            int start = Array.FindIndex(Acts, static each => each.Act is Act.Flush or Act.WriteAsync or Act.SendFile or Act.SendShortFile or Act.SendBrokenFile or Act.End or Act.Complete);
            return read >= 0 && (start < 0 || read < start);
        }
    }

    /// <summary>The length of the response is known when its head is written.</summary>
    public bool HasKnownLength { get; init; }

    /// <summary>A callback of the abort token blocks.</summary>
    public bool BlocksOnAbort { get; init; }

    // ---- what the handler reports ----

    public int Started { get; set; }

    public int Finished { get; set; }

    /// <summary>The handler has said that the response is complete, and may go on.</summary>
    public bool HasEnded { get; set; }

    /// <summary>Its client has the response, or waits for it no longer.</summary>
    public TaskCompletionSource Answered { get; } = new();

    /// <summary>When its handler ended; of one that has.</summary>
    public long FinishedMs { get; set; }

    /// <summary>Since when its handler waits for bytes of the body; 0: it does not.</summary>
    public long ReadsSinceMs { get; set; }

    public int BodyRead { get; set; }

    public bool BodyWasWhole { get; set; }

    /// <summary>Bytes of the response that the handler has written.</summary>
    public int Written { get; set; }

    /// <summary>The handler has asked for the body.</summary>
    public bool BodyWanted { get; set; }

    // ---- what must come back ----

    public int WrittenLength { get; init; }

    public bool Throws => Acts.Any(static act => act.Act == Act.Throw);

    public bool Aborts => Acts.Any(static act => act.Act == Act.Abort);

    /// <summary>A file that it sends cannot be read, or is shorter than was said.</summary>
    public bool FailsInFile => Acts.Any(static act => act.Act is Act.SendShortFile or Act.SendBrokenFile);

    /// <summary>The response breaks off: the connection ends without END_REQUEST.</summary>
    public bool BreaksOff { get; init; }

    /// <summary>Its handler goes on while its writes, flushes and files are on their way, and awaits them later.</summary>
    public bool AwaitsLate => Name.Sum(static letter => letter) % 4 == 3;

    public int Status => IsTunnel ? 101 : Throws && !BreaksOff ? 500 : 200;

    // Every byte of a body says whose it is and where it stands: eight of them at a time are drawn from name and place.
    private static ulong Hash(string name)
    {
        ulong hash = 14695981039346656037;
        foreach (char c in name)
        {
            hash = (hash ^ c) * 1099511628211;
        }

        return hash;
    }

    private static ulong WordAt(ulong hash, int word)
    {
        ulong z = (hash ^ (uint)word) * 0x9E37_79B9_7F4A_7C15;
        return z ^ (z >> 29);
    }

    private static byte ByteAt(ulong hash, int position) => (byte)(WordAt(hash, position >> 3) >> ((position & 7) * 8));

    public static void Fill(string name, int position, Span<byte> bytes)
    {
        ulong hash = Hash(name);
        int i = 0;
        for (; i < bytes.Length && ((position + i) & 7) != 0; i++)
        {
            bytes[i] = ByteAt(hash, position + i);
        }

        for (; i + 8 <= bytes.Length; i += 8)
        {
            BinaryPrimitives.WriteUInt64LittleEndian(bytes[i..], WordAt(hash, (position + i) >> 3));
        }

        for (; i < bytes.Length; i++)
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
        Span<byte> expected = stackalloc byte[4_096];
        for (int at = 0; at < bytes.Length;)
        {
            Span<byte> part = expected[..Math.Min(expected.Length, bytes.Length - at)];
            Fill(name, position + at, part);
            if (!bytes.Slice(at, part.Length).SequenceEqual(part))
            {
                return false;
            }

            at += part.Length;
        }

        return true;
    }

    public string RequestPattern => Name + "<";

    public string ResponsePattern => Name + ">";

    public override string ToString() => string.Create(CultureInfo.InvariantCulture,
        $"{Name} id {Id}{(KeepsConnection ? " keep" : "")}{(IsDisturbed ? " disturbed" : "")}{(BreaksOff ? " breaks off" : "")}{(IsHttp10 ? " 1.0" : "")}{(IsHead ? " HEAD" : "")}{(IsChunked ? " chunked" : "")}{(ExpectsContinue ? " expects 100" : "")}{(IsTunnel ? " tunnel" : "")} body {BodyLength}{(AnnouncesLength ? "" : " unannounced")}: {string.Join(' ', Acts.Select(static act => $"{act.Act}({act.Count})"))}");
}
