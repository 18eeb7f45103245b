// A client whose connection may move between processes any number of times, and judges what it sees: each of its requests is answered once, whole and
// in order, on a connection that nobody ends but a process that crashes while it has it.

using System.Buffers.Binary;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Behaviour.Shared;

namespace Millrace.Tests.Simulation;

/// <summary>Bytes that are sent together.</summary>
/// <param name="Bytes">Of one request or several.</param>
/// <param name="Answers">So many answers are waited for first.</param>
internal readonly record struct Piece(byte[] Bytes, int Answers);

/// <param name="daemon">Whose application it visits.</param>
/// <param name="number">From 0.</param>
/// <param name="isHttp">Or FastCGI.</param>
/// <param name="requests">What it asks.</param>
/// <param name="script">Cuts the bytes of its requests into what is sent together.</param>
/// <param name="isPaced">It sends nothing at every other step.</param>
internal sealed class MovingClient(SimulatedDaemon daemon, int number, bool isHttp, MovedRequest[] requests, Func<byte[][], List<Piece>> script, bool isPaced = false)
{
    private readonly Queue<Piece> _script = new();
    private Caller? _caller;
    private int _answers;
    private int _steps;

    public SimulatedSocket? Socket => _caller?.Socket;

    public IReadOnlyList<MovedRequest> Requests => requests;

    /// <summary>Nothing more is expected in either direction.</summary>
    public bool IsDone { get; private set; }

    /// <summary>The connection has ended before all was answered, as it may.</summary>
    public bool WasCutOff { get; private set; }

    private SeededRandom Random => daemon.Machine.Random;

    private int Answered => _caller is FastCgiCaller caller ? caller.Front.Ended.Count : ((HttpPeer)_caller!.End).Answers.Count;

    /// <summary>One thing, or all that can be done; false when there was nothing to do.</summary>
    public bool Act(bool eager)
    {
        if (IsDone)
        {
            return Socket is { CanDeliver: true } last && Deliver(last, int.MaxValue);      // its end still travels
        }

        if (_caller is null)
        {
            Connect();
            return true;
        }

        bool did = Send(eager);
        if (Socket!.CanDeliver && (eager || Random.Chance(70)))
        {
            did |= Deliver(Socket, eager || Random.Chance(50) ? int.MaxValue : Random.Between(1, 3_000));
        }

        if (eager || Random.Chance(70))
        {
            did |= _caller.End.Read(eager || Random.Chance(50) ? int.MaxValue : Random.Between(1, 3_000)) > 0;
        }

        Judge();
        return did;
    }

    private bool Deliver(SimulatedSocket socket, int most)
    {
        daemon.Trace("deliver", socket.Number, socket.Deliver(most));
        return true;
    }

    private void Connect()
    {
        SimulatedSocket socket = daemon.Machine.Connect(daemon.Listener(isHttp));
        _caller = isHttp ? new HttpCaller(new HttpPeer(socket)) : new FastCgiCaller(new FrontEnd(socket));
        daemon.Trace("client connects", number, socket.Number);
        byte[][] bytes = new byte[requests.Length][];
        long length = 0;
        for (int i = 0; i < requests.Length; i++)
        {
            MovedRequest each = requests[i];
            byte[]? body = each.BodyLength > 0 ? Plan.Bytes(each.RequestPattern, 0, each.BodyLength) : null;
            bytes[i] = _caller.Request(each.Name, body is null ? "GET" : "POST", body, announced: each.BodyLength % 2 == 0);
            (each.Socket, each.From, each.End) = (socket, length, length += bytes[i].Length);
            for (int at = 0; !isHttp && at < bytes[i].Length; at += 8 + BinaryPrimitives.ReadUInt16BigEndian(bytes[i].AsSpan(at + 4)) + bytes[i][at + 6])
            {
                each.Records.Add(each.From + at);
            }

            daemon.Add(each);
        }

        script(bytes).ForEach(_script.Enqueue);
    }

    private bool Send(bool eager)
    {
        if (!_script.TryPeek(out Piece next) || (isPaced && _steps++ % 2 == 1) || (!eager && Random.Chance(50)))
        {
            return false;
        }

        if (_answers < next.Answers)
        {
            return false;
        }

        Socket!.ClientSend(_script.Dequeue().Bytes);
        return true;
    }

    // ---- judging ----

    private void Judge()
    {
        SimulatedSocket socket = Socket!;
        if (_caller!.End.Fault is { } fault)
        {
            daemon.Violated($"client {number} was sent {fault}");
        }

        if (Array.Find(requests, static each => each.Torn() is not null) is { } torn)
        {
            daemon.Violated(torn.Torn()!);
        }

        if (!socket.ServerClosed && socket.TakenByServer + socket.UnreadByServer != socket.Arrived)
        {
            daemon.Violated($"of {socket.Arrived} bytes of client {number} {socket.TakenByServer} were taken, and {socket.UnreadByServer} lie in its socket");
        }

        for (; _answers < Answered; _answers++)
        {
            JudgeAnswer(_answers, _caller.Answers[_answers]);
        }

        if (socket.AtEnd)
        {
            JudgeEnd(socket);
        }
        else if (_script.Count == 0 && _answers == requests.Length)
        {
            IsDone = true;
            socket.ClientClose();
        }
    }

    private void JudgeAnswer(int index, Answer answer)
    {
        if (index >= requests.Length)
        {
            daemon.Violated($"client {number} was sent an answer that it does not wait for");
            return;
        }

        MovedRequest request = requests[index];
        if (answer.Status != 200 || answer.Field("X-Name") != request.Name || answer.Body.Length != request.AnswerLength || !Plan.Matches(request.AnswerPattern, 0, answer.Body))
        {
            daemon.Violated($"request {request.Name} was answered with status {answer.Status} and {answer.Body.Length} bytes of {answer.Field("X-Name")}");
        }

        if (answer.Field("Connection") == "close")
        {
            daemon.Violated($"the answer to {request.Name} ends a connection that is to be kept");
        }
    }

    private void JudgeEnd(SimulatedSocket socket)
    {
        IsDone = WasCutOff = true;
        if (!socket.HasLostOwner)
        {
            daemon.Violated($"the connection of client {number} has ended, and no process that had it has crashed");
        }
        else if (_caller!.Begun is { } begun && begun.Status == 200 && _answers < requests.Length && !Plan.Matches(requests[_answers].AnswerPattern, 0, begun.Body))
        {
            daemon.Violated($"the answer to {requests[_answers].Name} begins with bytes that are not its own");
        }
    }

    /// <summary>Nothing moves any more: is this client served?</summary>
    public void Complain()
    {
        if (!IsDone)
        {
            daemon.Violated($"nothing moves any more, but {this}");
        }
    }

    public override string ToString() =>
        FormattableString.Invariant($"client {number} ({(isHttp ? "HTTP" : "FastCGI")}, connection {Socket?.Number}) has {_answers} of {requests.Length} answers, {_script.Count} pieces left, {Socket?.InFlight} bytes in flight, {Socket?.UnreadByServer} in its socket, {Socket?.References} references");
}
