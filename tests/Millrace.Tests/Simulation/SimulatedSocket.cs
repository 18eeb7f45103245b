// One connection of the simulated kernel: the server's end, with the rules of Linux for readiness, ends and resets, and the
// client's end, which the tests hold. Bytes of the client travel in three stages: Wire (sent, on their way), Incoming (in the
// server's receive buffer), taken.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal sealed class SimulatedSocket(int number, bool isTcp, int receiveCapacity, int sendCapacity, SeededRandom random, SocketFaults faults) : IOpenFile
{
    private readonly ByteQueue _wire = new();
    private readonly ByteQueue _incoming = new();
    private readonly ByteQueue _outgoing = new();
    private bool _finishAfterWire;
    private bool _errorTold;
    private long _arrived;       // bytes that the client's system has, as the server was told: the client can read them whatever happens
    private long _readByClient;
    private bool _noSpace;       // a send was refused: room is an edge from now on
    private bool _hasRefused;    // the last send was
    private bool _refusing;      // refuses to send whatever room there is
    private readonly Queue<int> _pieces = [];       // Unix: each counts until all of it has been read
    private int _readOfPiece;
    private int _moreRoom;

    /// <summary>Which connection this is, from 1; never used again, unlike the descriptor.</summary>
    public int Number => number;

    public bool IsTcp => isTcp;

    /// <summary>The server's descriptor; -1 before accept and after close.</summary>
    public int Descriptor { get; set; } = -1;

    // One for each event queue, and descriptor, that it is registered in with; they end with the last descriptor, whoever has that (epoll(7), question 6).
    private readonly List<Registration> _registrations = [];

    /// <summary>The latest.</summary>
    public Registration? Registration => _registrations.Count > 0 ? _registrations[^1] : null;

    public Registration? RegistrationAt(SimulatedPoller poller, int descriptor) => _registrations.Find(each => each.Poller == poller && each.Descriptor == descriptor);

    public bool IsWatchedBy(SimulatedWorld process) => _registrations.Exists(each => each.Poller.Process == process && !each.Poller.HasEnded);

    public void Add(Registration registration) => _registrations.Add(registration);

    public void Remove(Registration registration)
    {
        registration.Remove();
        _registrations.Remove(registration);
    }

    /// <summary>Descriptors that stand for it, and messages that carry it.</summary>
    public int References { get; set; }

    /// <summary>The process that reads from it and writes to it; null while it waits to be accepted or is on its way between two.</summary>
    public SimulatedWorld? Owner { get; set; }

    /// <summary>Whose it was has crashed, or it was on its way when the last who could take it had gone: it may end.</summary>
    public bool HasLostOwner { get; set; }

    /// <summary>SO_LINGER with 0 seconds: of the connection, whoever closes it last.</summary>
    public bool ResetsAtEnd { get; set; }

    void IOpenFile.End() => Close(ResetsAtEnd);

    private readonly List<(SimulatedWorld Process, long End)> _takers = [];

    /// <summary>The process has taken so many bytes.</summary>
    public void NoteTaker(SimulatedWorld process, int count)
    {
        if (count <= 0)
        {
            return;
        }

        if (_takers.Count > 0 && _takers[^1].Process == process)
        {
            _takers.RemoveAt(_takers.Count - 1);
        }

        _takers.Add((process, TakenByServer));
    }

    /// <summary>The processes that have taken bytes in [<paramref name="from"/>, <paramref name="end"/>), and where each of them began.</summary>
    public List<(SimulatedWorld Process, long From)> TakersOf(long from, long end)
    {
        var takers = new List<(SimulatedWorld Process, long From)>();
        long begin = 0;
        foreach ((SimulatedWorld process, long upTo) in _takers)
        {
            if (begin < end && upTo > from)
            {
                takers.Add((process, Math.Max(begin, from)));
            }

            begin = upTo;
        }

        return takers;
    }

    /// <summary>Which loop has read from it; no other may.</summary>
    public object? Reader { get; set; }

    /// <summary>Bytes the server has taken out of the receive buffer.</summary>
    public long TakenByServer { get; private set; }

    /// <summary>Bytes the kernel has taken from the server.</summary>
    public long SentByServer { get; private set; }

    public bool WriteShut { get; private set; }

    public bool ReadShut { get; private set; }

    public bool ServerClosed { get; private set; }

    /// <summary>The server's close was a reset, or looked like one to the client: bytes were unread.</summary>
    public bool WasReset { get; private set; }

    public bool FinDelivered { get; private set; }

    public bool IsReset { get; private set; }

    public bool ClientGone { get; private set; }

    public int InFlight => _wire.Count;

    public int Unread => _outgoing.Count;

    /// <summary>Over TCP the client's system has a buffer too: here half of all there is between the two, unless said otherwise.</summary>
    public int PeerCapacity { get; set; } = isTcp ? sendCapacity / 2 : 0;

    /// <summary>What the server has sent and the client's system has not taken, told in steps of so many bytes.</summary>
    public int UnreadByServer => _incoming.Count;

    public int Unsent(int step)
    {
        int unsent = UnsentNow(step);
        _arrived = Math.Max(_arrived, SentByServer - unsent);
        return unsent;
    }

    /// <summary>The same, of which the server learns nothing.</summary>
    public int UnsentNow(int step) => (Math.Max(0, Used - PeerCapacity) + step - 1) / step * step;

    // ---- what slow peers know of themselves ----

    private readonly List<(long Bytes, long AtMs)> _arrivals = [];

    /// <summary>Where time comes from; null: nobody asks when bytes arrived.</summary>
    public Func<long>? Clock { get; set; }

    /// <summary>Bytes of the client that have arrived at the server's system.</summary>
    public long Arrived { get; private set; }

    public long ArrivedMs => _arrivals.Count > 0 ? _arrivals[^1].AtMs : 0;

    /// <summary>When the byte arrived that stands at <paramref name="offset"/>, or will be the next.</summary>
    public long ArrivalOf(long offset) => _arrivals.Find(arrival => arrival.Bytes > offset) is { Bytes: > 0 } found ? found.AtMs : ArrivedMs;

    /// <summary>Bytes that had arrived at that time.</summary>
    public long ArrivedBy(long atMs) => _arrivals.FindLast(arrival => arrival.AtMs <= atMs).Bytes;

    /// <summary>The server's system takes no more until the server reads.</summary>
    public bool IsFull => _incoming.Count >= receiveCapacity;

    /// <summary>The server has read all that has arrived.</summary>
    public bool IsEmpty => _incoming.Count == 0;

    /// <summary>The server has been told that there is no room, and not yet that there is; nor has it tried again and had all taken.</summary>
    public bool HasRefused => _noSpace && _hasRefused;

    // ---- the server's side ----

    public Readiness State
    {
        get
        {
            Readiness state = Readiness.None;
            if (_incoming.Count > 0 || FinDelivered || IsReset || ReadShut || ReceivingEnded)
            {
                state |= Readiness.Read;
            }

            if (HasRoom || WriteShut || IsReset)
            {
                state |= Readiness.Write;
            }

            if (FinDelivered || ReadShut || IsReset || ReceivingEnded)
            {
                state |= Readiness.PeerFinished;
            }

            if (IsReset || ((FinDelivered || ReadShut || ReceivingEnded) && WriteShut) || (ClientGone && FinDelivered && !isTcp))
            {
                state |= Readiness.HangUp;
            }

            return IsReset ? state | Readiness.Error : state;
        }
    }

    // The kernel calls a TCP socket writable again when a third of its buffer is free, a Unix socket when three quarters are.
    private bool HasRoom => !_refusing && (isTcp ? (Capacity - Used) * 3 >= Capacity : Used * 4L <= Capacity);

    private int Used => isTcp ? _outgoing.Count : _outgoing.Count + _readOfPiece;

    // Linux 6, net/unix/af_unix.c: a piece is taken whole, and more than there is room for, or not at all.
    private int PieceMax => Math.Clamp(Capacity / 2, 1, 36 * 1024);

    /// <summary>The server has asked for a larger buffer (SO_SNDBUF).</summary>
    public void MakeRoom() => _moreRoom = Math.Max(sendCapacity, 256 * 1024);

    private int Capacity => sendCapacity + _moreRoom;

    public int Receive(Span<byte> buffer)
    {
        if (_incoming.Count > 0)
        {
            int count = _incoming.Take(buffer);
            TakenByServer += count;
            return count;
        }

        if (IsReset && !_errorTold)
        {
            _errorTold = true;
            return KernelResult.Broken;
        }

        return FinDelivered || ReadShut || IsReset || ReceivingEnded ? 0 : KernelResult.Again;
    }

    /// <summary>The most bytes the server has offered in one call.</summary>
    public int LargestSend { get; private set; }

    public int Send(ReadOnlySpan<byte> bytes)
    {
        LargestSend = Math.Max(LargestSend, bytes.Length);
        if (WriteShut || IsReset)
        {
            return KernelResult.Broken;
        }

        if (ClientGone)
        {
            if (!isTcp)
            {
                return KernelResult.Broken;
            }

            Break(keep: random.Chance(50));      // the first bytes are taken; what comes back is a reset
            return bytes.Length;
        }

        int room = Capacity - Used;
        _refusing |= faults.RefusedSend > 0 && random.Chance(faults.RefusedSend);
        if (room <= 0 || _refusing)
        {
            _noSpace = _hasRefused = true;
            return KernelResult.Again;
        }

        int count = isTcp ? Math.Min(room, bytes.Length) : TakePieces(bytes.Length);
        if (isTcp && count > 1 && random.Chance(faults.ShortSend))
        {
            count = random.Between(1, count);
        }

        _outgoing.Append(bytes[..count]);
        SentByServer += count;
        _hasRefused &= count < bytes.Length;
        return count;
    }

    private int TakePieces(int length)
    {
        int taken = 0;
        for (int used = Used; taken < length && used < Capacity;)
        {
            int piece = Math.Min(length - taken, PieceMax);
            _pieces.Enqueue(piece);
            taken += piece;
            used += piece;
        }

        return taken;
    }

    private void ReadPieces(int count)
    {
        _readOfPiece += count;
        while (_pieces.TryPeek(out int piece) && _readOfPiece >= piece)
        {
            _readOfPiece -= _pieces.Dequeue();
        }
    }

    public void Shutdown(bool both)
    {
        WriteShut = true;
        ReadShut |= both;
        Edge();
    }

    /// <summary>Unix: the client's sends fail from now on.</summary>
    public bool ReceivingEnded { get; private set; }

    /// <summary>The client knows that something it wanted to send was not taken.</summary>
    public bool RefusedToClient { get; private set; }

    // Measured on Linux 6.18: EPOLLIN and EPOLLRDHUP at once; what has come can be read, and behind it 0; answers can be sent; the peer gets EPIPE, and no
    // event. When the peer has closed: EPOLLHUP besides.
    public void EndReceiving()
    {
        if (isTcp)
        {
            throw new InvalidOperationException("A TCP connection's receiving cannot be ended so that its peer knows.");
        }

        ReceivingEnded = true;
        Edge();
    }

    /// <summary>The association is dissolved: the peer gets a reset, the descriptor stays.</summary>
    public void ResetByServer()
    {
        WasReset = WriteShut = ReadShut = true;
        _incoming.Truncate(0);
        LoseAnswers();
        Edge();
    }

    public void Close(bool reset)
    {
        ServerClosed = true;
        WasReset |= isTcp && (reset || _incoming.Count > 0);
        _refusing = false;
        Descriptor = -1;
        _registrations.ForEach(static each => each.Remove());
        _registrations.Clear();
        if (WasReset)
        {
            LoseAnswers();
        }
    }

    private void Edge() => _registrations.ForEach(static each => each.Raise());

    /// <summary>When the server ended its sending side; 0 when it has not.</summary>
    public long ShutAtMs { get; set; }

    public long ClosedAtMs { get; set; }

    /// <summary>The server waited before it closed: a client that was slower than that may lose what it has not read.</summary>
    public bool HasLingered => ServerClosed && ShutAtMs > 0 && ClosedAtMs - ShutAtMs >= 2_000;

    // A reset takes along what the client's system has not confirmed. What that has, its client reads first, and then meets the reset: measured
    // on Linux 6.18 with SO_LINGER 0, connect(AF_UNSPEC) and a close over unread bytes, 1,000 bytes unread: all of them, then ECONNRESET; with
    // 2 KB to 1 MB more in the server's buffer: those alone are lost.
    private void LoseAnswers()
    {
        int kept = (int)Math.Max(0, _arrived - _readByClient);
        if (!ClientGone && kept < _outgoing.Count)
        {
            _outgoing.Truncate(random.Between(kept, _outgoing.Count - 1));
            AnswersLost = true;
        }
    }

    /// <summary>System calls on this connection until its peer resets it; 0: it does not.</summary>
    public int ResetAfterCalls { get; set; }

    /// <summary>A system call is about to be made on this connection.</summary>
    public void CountCall()
    {
        if (ResetAfterCalls > 0 && --ResetAfterCalls == 0)
        {
            ClientReset();
        }
    }

    /// <summary>A reset of the server has overtaken bytes of an answer.</summary>
    public bool AnswersLost { get; private set; }

    private void Break(bool keep)
    {
        IsReset = true;
        _wire.Truncate(0);      // what is still on its way is met by a reset
        if (!keep)
        {
            _incoming.Truncate(0);
        }

        Edge();
    }

    // ---- the client's side ----

    public void ClientSend(ReadOnlySpan<byte> bytes) => _wire.Append(bytes);

    /// <summary>The client's end of stream, behind what it has sent.</summary>
    public void ClientFinish() => _finishAfterWire = true;

    /// <summary>The client closes: it neither sends nor reads any more.</summary>
    public void ClientClose()
    {
        if (_outgoing.Count > 0)
        {
            ClientReset();       // closing over unread bytes is a reset
            return;
        }

        _finishAfterWire = true;
        ClientGone = true;
        _outgoing.Truncate(0);
        Relent();
    }

    public void ClientReset()
    {
        ClientGone = true;
        _refusing = false;
        _outgoing.Truncate(0);
        if (!ServerClosed)
        {
            Break(keep: random.Chance(50));
        }
    }

    public bool CanDeliver => ServerClosed || WasReset
        ? _wire.Count > 0
        : (_wire.Count > 0 && (_incoming.Count < receiveCapacity || ReceivingEnded)) || (_wire.Count == 0 && _finishAfterWire && !FinDelivered && !IsReset);

    /// <summary>Moves up to <paramref name="max"/> bytes from the wire into the receive buffer.</summary>
    public int Deliver(int max)
    {
        if (ServerClosed)
        {
            _wire.Truncate(0);
            if (isTcp)
            {
                WasReset = true;
                LoseAnswers();
            }

            return 0;
        }

        if (WasReset)
        {
            _wire.Truncate(0);
            return 0;
        }

        if (ReceivingEnded)
        {
            RefusedToClient |= _wire.Count > 0;
            _wire.Truncate(0);
        }

        int count = Math.Min(Math.Min(max, _wire.Count), receiveCapacity - _incoming.Count);
        if (count > 0)
        {
            _incoming.Append(_wire.Peek(count));
            _wire.Skip(count);
            Arrived += count;
            if (Clock is not null)
            {
                _arrivals.Add((Arrived, Clock()));
            }

            Edge();
        }

        if (_wire.Count == 0 && _finishAfterWire && !FinDelivered && !IsReset && (count == 0 || random.Chance(50)))
        {
            FinDelivered = true;
            Edge();
        }

        return count;
    }

    public int ClientRead(Span<byte> buffer)
    {
        int count = _outgoing.Take(buffer);
        _readByClient += count;
        ReadPieces(isTcp ? 0 : count);
        if (_noSpace && HasRoom && !ServerClosed)
        {
            _noSpace = false;
            Edge();
        }

        return count;
    }

    /// <summary>The client has read everything that will ever come.</summary>
    public bool AtEnd => _outgoing.Count == 0 && (ServerClosed || WriteShut);

    /// <summary>Whether the kernel refuses to send although there is room.</summary>
    public bool IsRefusing => _refusing;

    /// <summary>The kernel has found memory again.</summary>
    public void Relent()
    {
        if (_refusing)
        {
            _refusing = false;
            if (HasRoom && !ServerClosed)
            {
                _noSpace = false;
                Edge();
            }
        }
    }

    /// <summary>An edge without a reason, which epoll allows; <paramref name="lies"/>: it tells of what is not there.</summary>
    public void SpuriousEdge(bool lies)
    {
        if (lies && Registration is { } registration)
        {
            registration.Lie = Readiness.Read | Readiness.Write;
        }

        Edge();
    }
}
