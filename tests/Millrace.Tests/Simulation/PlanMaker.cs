// Draws the plans of requests and the bytes of their clients from a seed.

using System.Globalization;

namespace Millrace.Tests.Simulation;

internal static class PlanMaker
{
    // A body that fits the buffer: behind a larger one that nobody reads, an abort is not seen.
    private const int UnreadMax = 4_000;

    public static Plan Make(SeededRandom random, string name, int id, bool keep, int bodyMax, bool isAborted, bool mayEnd)
    {
        List<(Act, int)> acts = DrawActs(random, maySendFile: true, out bool breaksOff, out _);
        int body = random.Chance(50) ? 0 : random.Size(bodyMax);
        if (isAborted && body <= UnreadMax && random.Chance(50))
        {
            acts.Insert(random.Below(acts.Count + 1), (Act.WaitForAbort, 0));
        }

        if (mayEnd)
        {
            AddEnd(random, acts, mayAwaitAnswer: !isAborted);
        }

        return new Plan
        {
            Name = name,
            Id = id,
            KeepsConnection = keep,
            Acts = [.. acts],
            BodyLength = body,
            AnnouncesLength = random.Chance(60),
            DeclaresLength = !breaksOff && random.Chance(30),
            WrittenLength = WrittenBy(acts),
            BreaksOff = breaksOff,
            BlocksOnAbort = random.Chance(20),
        };
    }

    public static Plan MakeHttp(SeededRandom random, string name, bool keep, int bodyMax, Trouble trouble, bool mayTunnel, bool mayEnd)
    {
        bool isTunnel = mayTunnel && trouble == Trouble.None && random.Chance(8);
        bool isHead = !isTunnel && random.Chance(8);
        int body = isHead || isTunnel || random.Chance(50) ? 0 : random.Size(bodyMax);
        bool is10 = !isTunnel && random.Chance(12);
        List<(Act, int)> acts = isTunnel ? [(Act.Upgrade, 0)] : DrawActs(random, maySendFile: !isHead, out _, out _);
        bool breaksOff = BreaksOff(acts, out bool started);
        if (!isTunnel && random.Chance(5) && !breaksOff)
        {
            acts.Insert(0, (Act.AskToClose, 0));
        }

        // A peer that leaves is seen when nothing it sent before waits.
        bool isAborted = (trouble is Trouble.Aborts or Trouble.Resets or Trouble.Closes) && body <= UnreadMax && random.Chance(50);
        if (isAborted)
        {
            acts.Insert(random.Below(acts.Count + 1), (Act.WaitForAbort, 0));
        }

        bool declares = !isTunnel && !breaksOff && random.Chance(30);
        if (mayEnd && !isTunnel)
        {
            AddEnd(random, acts, mayAwaitAnswer: !is10 || declares || !started);
        }

        return new Plan
        {
            Name = name,
            Id = 0,
            KeepsConnection = keep || isTunnel,
            Acts = [.. acts],
            BodyLength = body,
            AnnouncesLength = true,
            DeclaresLength = declares,
            WrittenLength = WrittenBy(acts),
            BreaksOff = breaksOff,
            BlocksOnAbort = random.Chance(20),
            IsHead = isHead,
            IsHttp10 = is10,
            IsTunnel = isTunnel,
            TunnelLength = isTunnel ? random.Size(100_000) : 0,
            IsChunked = !is10 && !isHead && !isTunnel && random.Chance(body > 0 ? 40 : 5),
            HasTrailer = random.Chance(20),
            ExpectsContinue = !is10 && !isAborted && body > 0 && random.Chance(20),
            HasKnownLength = declares || !started,
        };
    }

    private static List<(Act Act, int Count)> DrawActs(SeededRandom random, bool maySendFile, out bool breaksOff, out bool started)
    {
        var acts = new List<(Act, int)>();
        for (int i = random.Below(7); i > 0; i--)
        {
            (Act Act, int Count) drawn = Draw(random);
            acts.Add(drawn.Act == Act.SendFile && !maySendFile ? (Act.WriteAsync, drawn.Count) : drawn);
        }

        if (random.Chance(7))
        {
            acts.Add(random.Below(10) switch
            {
                < 2 => (Act.Abort, 0),
                < 3 when maySendFile => (Act.SendShortFile, random.Between(16 * 1024, 140_000)),
                < 4 when maySendFile => (Act.SendBrokenFile, random.Between(16 * 1024, 140_000)),
                _ => (Act.Throw, 0),
            });
        }

        breaksOff = BreaksOff(acts, out started);
        return acts;
    }

    // What the handler does behind its response: the OnCompleted callbacks of an application, or what it does behind CompleteAsync.
    private static void AddEnd(SeededRandom random, List<(Act Act, int Count)> acts, bool mayAwaitAnswer)
    {
        bool leavesRead = random.Chance(5);
        if (leavesRead)
        {
            acts.Add((Act.LeaveRead, random.Size(10_000)));
        }

        if (acts.Exists(static each => each.Act is Act.Throw or Act.Abort or Act.SendShortFile or Act.SendBrokenFile) || !random.Chance(30))
        {
            return;
        }

        acts.Add((random.Chance(50) ? Act.End : Act.Complete, 0));
        for (int i = random.Below(4); i > 0; i--)
        {
            acts.Add(random.Below(6) switch
            {
                0 => (Act.Block, random.Between(0, 30)),
                1 when !leavesRead => (Act.ReadSome, random.Size(10_000)),
                2 when !leavesRead => (Act.ReadPipe, random.Size(10_000)),
                3 when mayAwaitAnswer => (Act.AwaitAnswer, 0),
                _ => (Act.Pause, 0),
            });
        }
    }

    private static bool BreaksOff(List<(Act Act, int Count)> acts, out bool started)
    {
        started = acts.Exists(static each => each.Act is Act.Flush or Act.WriteAsync or Act.SendFile or Act.SendShortFile or Act.SendBrokenFile);
        return acts.Exists(static each => each.Act is Act.Abort or Act.SendShortFile or Act.SendBrokenFile) || (started && acts.Exists(static each => each.Act == Act.Throw));
    }

    public static int WrittenBy(IReadOnlyList<(Act Act, int Count)> acts) => acts.Sum(static each => each.Act is Act.Write or Act.WriteAsync or Act.SendFile ? each.Count : 0);

    private static (Act Act, int Count) Draw(SeededRandom random) => random.Below(20) switch
    {
        < 5 => (Act.Write, random.Size(3_000)),
        < 7 => (Act.WriteAsync, random.Size(150_000)),
        < 9 => (Act.Flush, 0),
        < 12 => (Act.Pause, 0),
        < 14 => (Act.Block, random.Between(0, 30)),
        < 15 => (Act.ReadSome, random.Size(10_000)),
        < 16 => (Act.ReadPipe, random.Size(10_000)),
        < 19 => (Act.ReadAll, 0),
        _ => (Act.SendFile, random.Between(16 * 1024, 140_000)),
    };

    /// <summary>The records of a request, each an element.</summary>
    public static List<byte[]> Records(SeededRandom random, Plan plan, out int paramsEnd)
    {
        (string, string)[] length = plan.AnnouncesLength && plan.BodyLength > 0
            ? [("CONTENT_LENGTH", plan.BodyLength.ToString(CultureInfo.InvariantCulture))]
            : [];
        byte[] pairs = Wire.Pairs([.. Wire.Get(plan.Name, plan.BodyLength > 0 ? "POST" : "GET"), .. length, ("HTTP_X_PADDING", new string('x', random.Chance(10) ? random.Size(20_000) : 5))]);
        var records = new List<byte[]> { Wire.BeginRequest(plan.Id, plan.KeepsConnection) };
        Cut(random, records, Wire.Params, plan.Id, pairs, random.Chance(60) ? 65_535 : random.Between(20, 1_000));
        paramsEnd = records.Count - 1;
        Cut(random, records, Wire.Stdin, plan.Id, Plan.Bytes(plan.RequestPattern, 0, plan.BodyLength), random.Chance(60) ? 32 * 1024 : random.Between(100, 65_535));
        return records;
    }

    private static void Cut(SeededRandom random, List<byte[]> records, byte type, int id, byte[] content, int recordMax)
    {
        for (int at = 0; at < content.Length;)
        {
            int count = Math.Min(content.Length - at, random.Between(1, recordMax));
            records.Add(Wire.Record(type, id, content.AsSpan(at, count), random.Chance(30) ? random.Below(256) : -count & 7, paddingByte: (byte)random.Below(256)));
            at += count;
        }

        records.Add(Wire.Record(type, id, []));
    }
}
