// One client of the stress test: a thread with one connection at a time that sends requests of random kinds and checks
// every byte of the answers.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Stress;

internal sealed class StressClient(string address, int seed, Func<int> nextId, bool[] mayBeLost)
{
    // Kinds in a hundred and twenty eighth parts; most requests are answered at once, as in real life.
    private static readonly StressKind[] s_mix = MakeMix(
        (StressKind.Spin, 2), (StressKind.Sleep, 3), (StressKind.Delay, 4), (StressKind.Yield, 8), (StressKind.Upload, 8), (StressKind.Stream, 2),
        (StressKind.Throw, 3), (StressKind.ThrowLater, 2), (StressKind.ThrowMidway, 2), (StressKind.Leak, 1), (StressKind.UntilAborted, 2));

    private readonly Random _random = new(seed);
    private FastCgiPeer? _peer;
    private ushort _id;

    /// <summary>Requests that have been answered as they should.</summary>
    public int Answered { get; private set; }

    /// <summary>Requests given up by this client.</summary>
    public int GivenUp { get; private set; }

    /// <summary>Runs until there are no more numbers.</summary>
    /// <exception cref="InvalidDataException">An answer is wrong; the message says which and how.</exception>
    public void Run()
    {
        try
        {
            while (Step())
            {
            }
        }
        finally
        {
            Disconnect();
        }
    }

    private bool Step()
    {
        _peer ??= FastCgiPeer.Connect(address);
        StressKind kind = s_mix[_random.Next(s_mix.Length)];
        return kind switch
        {
            StressKind.UntilAborted => GiveUp(),
            StressKind.Stream when _random.Next(8) == 0 => LeaveMidway(),
            StressKind.Hello when _random.Next(40) == 0 => Leave(),
            StressKind.Hello when _random.Next(8) == 0 => SendSeveral(),
            _ => Ask(kind),
        };
    }

    // ---- one request, one answer ----

    private bool Ask(StressKind kind)
    {
        if (!TryMake(kind, out Pending pending))
        {
            return false;
        }

        if (kind == StressKind.Upload && _random.Next(4) == 0)
        {
            SendInParts(pending.Request);
        }
        else
        {
            _peer!.Send(pending.Request.ToBytes());
        }

        Check(pending);
        return true;
    }

    private void SendInParts(FastCgiRequest request)
    {
        byte[] bytes = request.ToBytes();
        for (int at = 0; at < bytes.Length;)
        {
            int count = Math.Min(1 + _random.Next(bytes.Length), bytes.Length - at);
            _peer!.Send(bytes.AsSpan(at, count));
            at += count;
            Thread.Sleep(_random.Next(2));
        }
    }

    // The next requests are sent before the answer to the first has come.
    private bool SendSeveral()
    {
        var pending = new List<Pending>();
        var bytes = new List<byte>();
        int count = _random.Next(2, 5);
        _id = (ushort)_random.Next(1, 65_536);    // another id would be a second request beside the first
        while (pending.Count < count && TryMake(_random.Next(3) switch { 0 => StressKind.Yield, 1 => StressKind.Delay, _ => StressKind.Hello }, out Pending next, keepsOpen: true))
        {
            pending.Add(next);
            bytes.AddRange(next.Request.ToBytes());
        }

        _id = 0;
        _peer!.Send(bytes.ToArray());
        pending.ForEach(Check);
        return pending.Count == count;
    }

    // ---- requests that are given up ----

    private bool GiveUp()
    {
        if (!TryMake(StressKind.UntilAborted, out Pending pending, keepsOpen: true))
        {
            return false;
        }

        mayBeLost[pending.Id] = true;
        GivenUp++;
        _peer!.Send(pending.Request.ToBytes());
        Thread.Sleep(_random.Next(3));
        if (_random.Next(2) == 0)
        {
            Disconnect();
            return true;
        }

        _peer.Send(pending.Request.Abort());
        FastCgiResponse response = _peer.Receive(pending.Request.Id);
        if (response.HasHead)
        {
            Require(response["X-Id"] == pending.Id.ToString(CultureInfo.InvariantCulture), pending, "the head of another request", response);
        }

        if (response.End is null)
        {
            Disconnect();
        }

        return true;
    }

    // The connection goes away when part of a request has been sent, or all of it.
    private bool Leave()
    {
        if (!TryMake((StressKind)_random.Next((int)StressKind.UntilAborted), out Pending pending))
        {
            return false;
        }

        mayBeLost[pending.Id] = true;
        GivenUp++;
        byte[] bytes = pending.Request.ToBytes();
        _peer!.Send(bytes.AsSpan(0, _random.Next(2) == 0 ? bytes.Length : _random.Next(bytes.Length)));
        Disconnect();
        return true;
    }

    private bool LeaveMidway()
    {
        if (nextId() is not (>= 0 and int id))
        {
            return false;
        }

        mayBeLost[id] = true;
        GivenUp++;
        int length = 1_000_000 + _random.Next(1_000_000);
        _peer!.Send(Request(StressKind.Stream, id, length, null, keepsOpen: true).ToBytes());
        _ = _peer.ReceiveSome(1 + _random.Next(100_000));
        Disconnect();
        return true;
    }

    // ---- making ----

    private readonly record struct Pending(int Id, StressKind Kind, int Number, FastCgiRequest Request);

    private bool TryMake(StressKind kind, out Pending pending, bool? keepsOpen = null)
    {
        pending = default;
        if (nextId() is not (>= 0 and int id))
        {
            return false;
        }

        byte[]? body = kind == StressKind.Upload ? StressContent.Long(id, _random.Next(10) == 0 ? _random.Next(200_000) : _random.Next(5_000)) : null;
        int number = kind switch
        {
            StressKind.Spin => _random.Next(500, 3_000),
            StressKind.Sleep or StressKind.Yield => _random.Next(1, 4),
            StressKind.Delay => _random.Next(0, 3),
            StressKind.Stream => _random.Next(400_000),
            _ => _random.Next(100),
        };
        bool keep = keepsOpen ?? (kind == StressKind.ThrowMidway || _random.Next(10) > 0);
        pending = new Pending(id, kind, number, Request(kind, id, number, body, keep));
        return true;
    }

    private FastCgiRequest Request(StressKind kind, int id, int number, byte[]? body, bool keepsOpen) =>
        new(string.Create(CultureInfo.InvariantCulture, $"/{kind}?{id}&{number}"), body is null ? "GET" : "POST")
        {
            Id = _id != 0 ? _id : (ushort)_random.Next(1, 65_536),
            KeepConnection = keepsOpen,
            Body = body,
            StdinSize = _random.Next(1, 8) * 8_000,
            AnnouncesLength = _random.Next(4) > 0,
        };

    // ---- checking ----

    private void Check(Pending pending)
    {
        FastCgiResponse response = _peer!.Receive(pending.Request.Id);
        switch (pending.Kind)
        {
            case StressKind.Throw or StressKind.ThrowLater:
                Require(response is { IsWhole: true, Status: 500, Body.Length: 0 } && response["Content-Length"] == "0", pending, "not an empty 500", response);
                Require(response.Stderr.Contains("unhandled System.InvalidOperationException", StringComparison.Ordinal), pending, "no error line", response);
                break;
            case StressKind.ThrowMidway:
                CheckCut(pending, response);
                break;
            case StressKind.Leak when response.Stderr.Length > 0:
                CheckOwnLeak(pending, response);
                break;
            case StressKind.Leak:
                CheckHead(pending, response);
                Require(WithoutLeaks(response, pending.Id).SequenceEqual(StressContent.Hello(pending.Id)), pending, "a wrong body", response);
                break;
            default:
                CheckHead(pending, response);
                Require(response["Content-Length"] == response.Body.Length.ToString(CultureInfo.InvariantCulture), pending, "a wrong length", response);
                Require(response.Body.SequenceEqual(Expected(pending)), pending, "a wrong body", response);
                break;
        }

        Answered++;
        if (!pending.Request.KeepConnection || response.IsBroken)
        {
            Require(_peer.BytesWaiting == 0 && _peer.IsClosedByServer(), pending, "bytes after its end, or a connection left open", response);
            Disconnect();
        }
    }

    private static void CheckHead(Pending pending, FastCgiResponse response)
    {
        Require(response is { IsWhole: true, Status: 200, StdoutEnds: 1, Stderr: "" }, pending, "not a whole answer", response);
        Require(response["X-Id"] == pending.Id.ToString(CultureInfo.InvariantCulture), pending, "an answer to another request", response);
    }

    private static void CheckCut(Pending pending, FastCgiResponse response)
    {
        Require(response is { End: null, IsBroken: true, Status: 200 }, pending, "a cut answer that looks whole", response);
        Require(response["X-Id"] == pending.Id.ToString(CultureInfo.InvariantCulture), pending, "an answer to another request", response);
        Require(response.Body.SequenceEqual(StressContent.Hello(pending.Id)), pending, "a wrong body", response);
        Require(response.Stderr.Contains("unhandled System.InvalidOperationException", StringComparison.Ordinal), pending, "no error line", response);
    }

    // A leak that was so quick that it was writing when the handler ended: the answer fails, as after any write not awaited.
    private static void CheckOwnLeak(Pending pending, FastCgiResponse response)
    {
        Require(response.Stderr.Contains("unhandled System.InvalidOperationException", StringComparison.Ordinal), pending, "another line than that of a write not awaited", response);
        if (response.Status != 500)
        {
            Require(response is { End: null, IsBroken: true, Status: 200 }, pending, "a cut answer that looks whole", response);
            Require(response["X-Id"] == pending.Id.ToString(CultureInfo.InvariantCulture), pending, "an answer to another request", response);
            Require(StressContent.Hello(pending.Id).AsSpan().StartsWith(WithoutLeaks(response, pending.Id)), pending, "a wrong body", response);
        }
    }

    // A leak that happened to be quick writes into its own answer.
    private static byte[] WithoutLeaks(FastCgiResponse response, int id) =>
        Encoding.ASCII.GetBytes(response.Text.Replace(StressContent.Leaked(id), "", StringComparison.Ordinal));

    private static byte[] Expected(Pending pending) => pending.Kind switch
    {
        StressKind.Stream => StressContent.Long(pending.Id, pending.Number),
        StressKind.Upload => Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
            $"{pending.Request.Body!.Length} {Convert.ToHexString(SHA256.HashData(pending.Request.Body))}")),
        _ => StressContent.Hello(pending.Id),
    };

    private static void Require(bool condition, Pending pending, string what, FastCgiResponse response)
    {
        if (!condition)
        {
            throw new InvalidDataException($"Request {pending.Id} ({pending.Kind} {pending.Number}) got {what}: {response}");
        }
    }

    private void Disconnect()
    {
        if (_random.Next(2) == 0)
        {
            _peer?.Reset();
        }
        else
        {
            _peer?.Dispose();
        }

        _peer = null;
    }

    private static StressKind[] MakeMix(params (StressKind Kind, int Share)[] shares)
    {
        var mix = new StressKind[128];
        int at = 0;
        foreach ((StressKind kind, int share) in shares)
        {
            mix.AsSpan(at, share).Fill(kind);
            at += share;
        }

        return mix;
    }
}
