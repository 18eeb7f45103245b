// Draws the plans of requests and the bytes of their clients from a seed.

using System.Globalization;

namespace Millrace.Tests.Simulation;

internal static class PlanMaker
{
    // A body that fits the buffer: behind a larger one that nobody reads, an abort is not seen.
    private const int UnreadMax = 4_000;

    public static Plan Make(SeededRandom random, string name, int id, bool keep, int bodyMax, bool isAborted)
    {
        var acts = new List<(Act, int)>();
        int written = 0;
        bool started = false;
        bool breaksOff = false;
        for (int i = random.Below(7); i > 0; i--)
        {
            (Act act, int count) = Draw(random);
            acts.Add((act, count));
            written += act is Act.Write or Act.WriteAsync or Act.SendFile ? count : 0;
            started |= act is Act.Flush or Act.WriteAsync or Act.SendFile;
        }

        if (random.Chance(7))
        {
            bool throws = random.Chance(70);
            acts.Add((throws ? Act.Throw : Act.Abort, 0));
            breaksOff = started || !throws;
        }

        int body = random.Chance(50) ? 0 : random.Size(bodyMax);
        if (isAborted && body <= UnreadMax && random.Chance(50))
        {
            acts.Insert(random.Below(acts.Count + 1), (Act.WaitForAbort, 0));
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
            WrittenLength = written,
            BreaksOff = breaksOff,
        };
    }

    private static (Act Act, int Count) Draw(SeededRandom random) => random.Below(20) switch
    {
        < 5 => (Act.Write, random.Size(3_000)),
        < 7 => (Act.WriteAsync, random.Size(150_000)),
        < 9 => (Act.Flush, 0),
        < 12 => (Act.Pause, 0),
        < 14 => (Act.Block, random.Between(0, 30)),
        < 16 => (Act.ReadSome, random.Size(10_000)),
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
