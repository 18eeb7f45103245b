// A child process that speaks FastCGI, and does with each request one of the things that children do on bad days. It serves one connection at a time, as php-cgi does, begins with a request when its
// parameters are there, and counts each that it has begun with.

using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Millrace.Connector;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Command;

namespace Millrace.Tests.Simulation.Children;

/// <summary>What a child does with a request.</summary>
internal enum Deed
{
    Answers,
    AnswersAndCloses,
    AnswersEarly,
    AnswersLate,
    AnswersTwice,
    Dies,
    DiesMidway,
    Closes,
    ClosesMidway,
    Hangs,
    HangsMidway,
    SaysGarbage,
    EndsWithoutAnswer,
    SaysTooMuch,
    SaysTooLittle,
    IsOverloaded,
}

internal sealed class SimulatedChild(ChildrenWorld world, int number) : IProgramProcess
{
    private static readonly int s_deeds = Enum.GetValues<Deed>().Length;

    private readonly List<ChildConnection> _connections = [];       // the first is being served
    private readonly List<byte> _input = [];
    private readonly StringBuilder _params = new();
    private readonly Queue<byte[]> _output = new();
    private readonly TaskCompletionSource _exited = new();
    private bool _isWorking;
    private string? _request;
    private ushort _recordId;       // of that, in its records
    private Deed _deed;
    private long _pausedUntilMs;
    private Action? _last;      // when all has been said

    public int Number => number;

    public bool HasExited { get; private set; }

    /// <summary>The kernel is taking it down: it has closed its connections, and its queue is there yet.</summary>
    public bool IsEnding { get; private set; }

    /// <summary>Something that it has started has its connections too, and ends none of them.</summary>
    public bool IsSurvived { get; init; }

    /// <summary>Gets no processor time (SIGSTOP).</summary>
    public bool IsStopped { get; set; }

    public string? GivenUpFor { get; private set; }

    public Task Exited => _exited.Task;

    // ---- as its pool and the client see it ----

    public ValueTask<ITransport> ConnectAsync(TransportKind kind, CancellationToken ct)
    {
        if (HasExited)
        {
            return ValueTask.FromException<ITransport>(new ConnectorException(ConnectorFault.NoConnection, $"child {number} cannot be connected to."));
        }

        Assert.False(IsEnding, $"child {number} is ending, and is connected to");
        ChildConnection connection = world.NewConnection();
        connection.BetweenSends = WorkBetweenSends;
        _connections.Add(connection);
        return ValueTask.FromResult<ITransport>(connection);
    }

    // What has come of a request may be enough to act upon, and to die of.
    private void WorkBetweenSends()
    {
        if (Work(int.MaxValue) && !world.IsCalm && world.Random.Chance(20))
        {
            Die();
        }
    }

    public async Task GiveUpAsync(string why)
    {
        if (!await WaitForExitAsync(TimeSpan.FromMilliseconds(50)).ConfigureAwait(false))
        {
            GivenUpFor = why;
            world.Note($"child {number} is given up: {why}");
            Die();
        }
    }

    public Task<bool> WaitForExitAsync(TimeSpan limit)
    {
        if (HasExited)
        {
            return Task.FromResult(true);
        }

        var ended = new TaskCompletionSource<bool>();
        _ = _exited.Task.ContinueWith(_ => ended.TrySetResult(true), CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        _ = world.Time.CreateTimer(
            _ =>
            {
                if (!IsEnding)
                {
                    ended.TrySetResult(false);
                }
            },
            null, limit, Timeout.InfiniteTimeSpan);
        return ended.Task;
    }

    /// <summary>The kernel takes it down: its connections first, and at once or some time later the rest of it.</summary>
    public void Die()
    {
        if (HasExited || IsEnding)
        {
            return;
        }

        world.Note($"child {number} dies{(_request is null ? "" : $" with {_request}")}");
        TimeSpan takes = TimeSpan.FromMilliseconds(number % 3 == 0 ? 20 * (number % 8) : 0);
        IsEnding = takes > TimeSpan.Zero;
        HasExited = !IsEnding;
        CloseAll();
        if (IsEnding)
        {
            _ = world.Time.CreateTimer(_ => Exit(), null, takes, Timeout.InfiniteTimeSpan);
            return;
        }
        _exited.TrySetResult();
    }

    private void Exit()
    {
        world.Note($"child {number} has ended");
        (IsEnding, HasExited) = (false, true);
        CloseAll();
        _exited.TrySetResult();
    }

    private void CloseAll()
    {
        foreach (ChildConnection connection in IsSurvived ? [] : _connections.ToArray())
        {
            connection.ChildClose();
        }

        _connections.Clear();
    }

    /// <summary>Ends a connection on which nothing is going on, or of which the client may think so.</summary>
    public void CloseIdle()
    {
        if (_request is null && _connections.Count > 0 && !IsStopped && !IsEnding)
        {
            world.Note($"child {number} closes an idle connection");
            CloseServed();
        }
    }

    // ---- what it does ----

    /// <summary>Reads, or says, some of what there is.</summary>
    public bool Work(int bytesMax)
    {
        if (_isWorking)
        {
            return false;       // it has made room, and the client has gone on
        }

        _isWorking = true;
        bool hasWorked = WorkOnce(bytesMax);
        _isWorking = false;
        return hasWorked;
    }

    private bool WorkOnce(int bytesMax)
    {
        if (HasExited || IsEnding || IsStopped || world.Time.NowMs < _pausedUntilMs)
        {
            return false;
        }

        _connections.RemoveAll(connection => connection.IsDisposed && connection.Unread == 0 && connection != Served);
        if (Served is not { } served)
        {
            return false;
        }

        if (_output.TryDequeue(out byte[]? piece))
        {
            served.ChildSend(piece);
            return true;
        }

        if (_last is { } last)
        {
            _last = null;
            last();
            return true;
        }

        byte[] read = served.ChildRead(bytesMax);
        _input.AddRange(read);
        TakeRecords();
        if (read.Length == 0 && served.IsDisposed && !IsHanging)
        {
            CloseServed();
            return true;
        }

        return read.Length > 0;
    }

    /// <summary>It serves nobody.</summary>
    public bool IsFree => !HasExited && !IsEnding && _connections.Count == 0;

    /// <summary>It will never go on by itself.</summary>
    public bool IsHanging => _request is not null && !IsEnding && _deed is (Deed.Hangs or Deed.HangsMidway or Deed.SaysGarbage);

    private ChildConnection? Served => _connections.Count > 0 ? _connections[0] : null;

    private void CloseServed()
    {
        ChildConnection served = _connections[0];
        _connections.RemoveAt(0);
        _input.Clear();
        _params.Clear();
        _output.Clear();
        _last = null;
        _request = null;
        _pausedUntilMs = 0;
        served.ChildClose();
    }

    private void TakeRecords()
    {
        while (_input.Count >= RecordHeader.Size)
        {
            int length = BinaryPrimitives.ReadUInt16BigEndian([_input[4], _input[5]]);
            int size = RecordHeader.Size + length + _input[6];
            if (_input.Count < size)
            {
                return;
            }

            var type = (RecordType)_input[1];
            string content = Encoding.Latin1.GetString([.. _input.GetRange(RecordHeader.Size, length)]);
            _recordId = BinaryPrimitives.ReadUInt16BigEndian([_input[2], _input[3]]);
            _input.RemoveRange(0, size);
            switch (type)
            {
                case RecordType.Params when length > 0:
                    _params.Append(content);
                    break;
                case RecordType.Params:
                    Begin();
                    break;
                case RecordType.Stdin when length == 0 && _request is not null && _deed != Deed.AnswersEarly:
                    Act();
                    break;
                case RecordType.AbortRequest when _request is not null:
                    Abort();
                    break;
            }
        }
    }

    private void Begin()
    {
        _request = ChildrenWorld.IdIn(_params.ToString())!;
        _params.Clear();
        _deed = world.IsCalm || world.Random.Chance(50) ? Deed.Answers : (Deed)world.Random.Below(s_deeds);
        world.Begun(_request, this, _deed);
        if (_deed == Deed.AnswersEarly)
        {
            Act();
        }
    }

    // Some look whether they are still wanted; most do not.
    private void Abort()
    {
        world.Note($"child {number} is told that {_request} has been given up");
        if (_deed is not (Deed.Hangs or Deed.HangsMidway) || world.Random.Chance(50))
        {
            _output.Clear();
            _pausedUntilMs = 0;
            string request = _request!;
            byte[] end = Its(ScriptedResponder.End());
            _last = () => EndRequest(request, end);
        }
    }

    private void Act()
    {
        string id = _request!;
        byte[] answer = Its([.. Stdout(world.HeadOf(id) + world.BodyOf(id)), .. ScriptedResponder.Record(RecordType.Stdout, ""), .. ScriptedResponder.End()]);
        int cut = world.Random.Between(1, answer.Length - 1);
        switch (_deed)
        {
            case Deed.Answers or Deed.AnswersEarly:
                Say(answer, () => EndRequest(id, []));
                break;
            case Deed.AnswersAndCloses:
                Say(answer, CloseServed);
                break;
            case Deed.AnswersLate:
                _pausedUntilMs = world.Time.NowMs + world.Random.Below(4_000);
                Say(answer, () => EndRequest(id, []));
                break;
            case Deed.AnswersTwice:
                // What comes behind the end of an answer is nobody's: with it, or when nobody has asked again. What is still on its way when the next request is sent nobody could tell from its answer.
                byte[] again = Its([.. Stdout("X: 1\r\n\r\nnobody's"), .. ScriptedResponder.End()]);
                if (world.Random.Chance(50))
                {
                    Say(answer[..cut], () => EndRequest(id, []));
                    _output.Enqueue([.. answer[cut..], .. again]);
                    break;
                }

                Say(answer, () => EndRequest(id, Served is { Unread: 0 } ? again : []));
                break;
            case Deed.Dies:
                _last = Die;
                break;
            case Deed.DiesMidway:
                Say(answer[..cut], Die);
                break;
            case Deed.Closes:
                _last = CloseServed;
                break;
            case Deed.ClosesMidway:
                Say(answer[..cut], CloseServed);
                break;
            case Deed.HangsMidway:
                Say(answer[..cut], static () => { });
                break;
            case Deed.SaysGarbage:
                Say([.. Encoding.ASCII.GetBytes("HTTP/1.1 200 OK\r\n\r\nhello, hello")], static () => { });
                break;
            case Deed.EndsWithoutAnswer:
                Say(Its(ScriptedResponder.End()), () => EndRequest(id, []));
                break;
            case Deed.SaysTooMuch:
                Say(Its([.. Stdout($"X-Id: {id}\r\nContent-Length: 3\r\n\r\n{world.BodyOf(id)}"), .. ScriptedResponder.End()]), () => EndRequest(id, []));
                break;
            case Deed.SaysTooLittle:
                Say(Its([.. Stdout($"X-Id: {id}\r\nContent-Length: 999999\r\n\r\n{world.BodyOf(id)}"), .. ScriptedResponder.End()]), () => EndRequest(id, []));
                break;
            case Deed.IsOverloaded:
                Say(Its(ScriptedResponder.End(0, ProtocolStatus.Overloaded)), () => EndRequest(id, []));
                break;
        }
    }

    private void EndRequest(string id, ReadOnlySpan<byte> last)
    {
        if (_request == id)
        {
            _request = null;
        }

        Served?.ChildSend(last);
    }

    private void Say(byte[] bytes, Action last)
    {
        for (int at = 0; at < bytes.Length;)
        {
            int count = world.Random.Chance(60) ? bytes.Length - at : world.Random.Between(1, bytes.Length - at);
            _output.Enqueue(bytes[at..(at + count)]);
            at += count;
        }

        _last = last;
    }

    // Whole records, as they are of the request that it has.
    private byte[] Its(byte[] records)
    {
        for (int at = 0; at < records.Length; at += RecordHeader.Size + BinaryPrimitives.ReadUInt16BigEndian(records.AsSpan(at + 4)) + records[at + 6])
        {
            BinaryPrimitives.WriteUInt16BigEndian(records.AsSpan(at + 2), _recordId);
        }

        return records;
    }

    private static IEnumerable<byte> Stdout(string text) => Encoding.Latin1.GetBytes(text).Chunk(60_000).SelectMany(static piece => ScriptedResponder.Record(RecordType.Stdout, piece, padding: 5));

    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"child {number}{(_request is null ? "" : $" with {_request} ({_deed})")}{(IsStopped ? ", stopped" : "")}, {_connections.Count} connections");
}
