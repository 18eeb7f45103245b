// A server over the simulated kernel that is sent one spoiled connection after the other, with a well-behaved neighbour of
// each protocol beside them. After each case: nothing was thrown, nothing hangs, what came back is well-formed, memory and
// descriptors are as before, and the neighbour gets its right answer.

using System.Globalization;
using System.Text;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

/// <summary>How a spoiled connection ends.</summary>
internal enum CaseEnd
{
    Reset,
    Finish,

    /// <summary>It does not: the server's time limits must end it.</summary>
    Silence,
}

internal sealed class ConnectionRig
{
    /// <summary>Bytes a case may cost beyond what it sends; buffers that are rented count while the pools fill.</summary>
    private const long MemoryMax = 512 * 1024;

    private const string NeighbourText = "The neighbour is well.";

    private static readonly byte[] s_fastCgiQuestion = Wire.Request("/neighbour");
    private static readonly byte[] s_httpQuestion = "GET /neighbour HTTP/1.1\r\nHost: n\r\n\r\n"u8.ToArray();
    private static readonly byte[] s_fastCgiAnswer =
    [
        .. Wire.Stream(Wire.Stdout, 1, Encoding.ASCII.GetBytes($"Status: 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {NeighbourText.Length}\r\n\r\n{NeighbourText}")),
        .. Wire.Record(Wire.End, 1, new byte[8]),
    ];

    private readonly Simulation.Simulation _simulation;
    private readonly byte[] _output = new byte[1024 * 1024];
    private readonly byte[] _body = new byte[4 * 1024];
    private SimulatedSocket _fastCgiNeighbour;
    private SimulatedSocket _httpNeighbour;

    public ConnectionRig(bool traces = false)
    {
        var options = new MillraceOptions { Loops = 1, MinBodyBytesPerSecond = 0, MaxDiscardBytes = 8 * 1024 }.Validate();
        _simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Options = options,
            Handler = _ => new DelegateHandler(Handle),
            HttpIsTcp = true,
            HasFingerprint = traces,
            Traces = traces,
        });
        _fastCgiNeighbour = Connect(http: false);
        _httpNeighbour = Connect(http: true);
        _ = Neighbours();
    }

    /// <summary>The last steps, where they were asked for.</summary>
    public string Trace => _simulation.TraceText(60);

    private SimulatedSocket Connect(bool http) => _simulation.World.Connect(http ? _simulation.HttpListener! : _simulation.Listener);

    // ---- the handler: what it does is in the length of the path ----

    private async ValueTask Handle(Request request, Response response)
    {
        if (request.Path == "/neighbour")
        {
            response.WriteText(NeighbourText);
            return;
        }

        response.AddHeader("X-Method", request.Method);
        int kind = request.Path.Length % 8;
        if (kind == 1)
        {
            await response.FlushAsync();
        }
        else if (kind == 2)
        {
            await _simulation.Pause();
        }

        long length = 0;
        if (kind != 3)
        {
            for (int count; (count = await request.ReadAsync(_body)) > 0;)
            {
                length += count;
            }
        }

        response.WriteText(string.Create(CultureInfo.InvariantCulture, $"{request.Target} {length}"));
        if (kind == 4)
        {
            await response.FlushAsync();
            throw new InvalidTimeZoneException("thrown by the handler, as it is to be");
        }

        if (kind == 5)
        {
            response.Abort();
        }
    }

    // ---- a case ----

    /// <summary>Null, or what went wrong. <paramref name="cuts"/>: where the bytes are cut on their way, rising.</summary>
    public string? Run(bool http, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> cuts, CaseEnd end)
    {
        long before = GC.GetAllocatedBytesForCurrentThread();
        SimulatedSocket socket = Connect(http);
        socket.ClientSend(bytes);
        int length = 0;
        int sent = 0;
        foreach (int cut in cuts)
        {
            sent += socket.Deliver(cut - sent);
            _simulation.Settle();
        }

        if (end == CaseEnd.Finish)
        {
            socket.ClientFinish();
        }

        length = Exhaust(socket, length);
        bool open = !socket.ServerClosed && !socket.WriteShut;
        string? fault = Judge(http, length, open);
        if (end == CaseEnd.Silence)
        {
            fault ??= WaitForTheEnd(socket);
        }

        socket.ClientReset();
        Settle();
        long cost = GC.GetAllocatedBytesForCurrentThread() - before;
        return _simulation.Failure ?? fault ?? Neighbours() ?? Leftovers(socket)
            ?? (cost > MemoryMax + (40L * bytes.Length) ? $"{bytes.Length} bytes cost {cost} bytes of memory" : null);
    }

    // Lets the rest travel, and reads what comes.
    private int Exhaust(SimulatedSocket socket, int length)
    {
        while (true)
        {
            Settle();
            int got = socket.ClientRead(_output.AsSpan(length));
            length += got;
            if (!socket.CanDeliver && got == 0)
            {
                return length;
            }

            if (socket.CanDeliver)
            {
                socket.Deliver(int.MaxValue);
            }
        }
    }

    private void Settle()
    {
        if (_simulation.Failure is null)
        {
            _simulation.Settle();
        }
    }

    // Nobody says anything: the longest limit is that of an idle connection.
    private string? WaitForTheEnd(SimulatedSocket socket)
    {
        for (int i = 0; i < 8 && !socket.ServerClosed; i++)
        {
            _simulation.World.NowMs += 70_000;
            Settle();
            _ = socket.ClientRead(_output);
            Settle();
        }

        return socket.ServerClosed ? null : "the connection is still open after nine minutes of silence";
    }

    private string? Leftovers(SimulatedSocket socket)
    {
        int open = _simulation.Services.Connections;
        return !socket.ServerClosed ? "the connection is still open after its peer has gone"
            : open != 2 ? $"{open - 2} connections too many are counted"
            : _simulation.World.Open != 5 ? $"{_simulation.World.Open - 5} descriptors too many are open"
            : _simulation.Handler.Running != 0 ? "an exchange has not come back"
            : null;
    }

    // ---- the neighbours ----

    private string? Neighbours()
    {
        Renew(ref _fastCgiNeighbour, http: false);
        Renew(ref _httpNeighbour, http: true);
        int length = Ask(_fastCgiNeighbour, s_fastCgiQuestion);
        if (!_output.AsSpan(0, length).SequenceEqual(s_fastCgiAnswer))
        {
            return $"the FastCGI neighbour was answered {Encoding.Latin1.GetString(_output, 0, length)}";
        }

        length = Ask(_httpNeighbour, s_httpQuestion);
        ReadOnlySpan<byte> answer = _output.AsSpan(0, length);
        return answer.StartsWith("HTTP/1.1 200 OK\r\n"u8) && answer.EndsWith("\r\n\r\nThe neighbour is well."u8) && answer.Count((byte)'\r') is >= 5 and <= 7
            ? null : $"the HTTP neighbour was answered {Encoding.Latin1.GetString(answer)}";
    }

    private int Ask(SimulatedSocket socket, byte[] question)
    {
        socket.ClientSend(question);
        socket.Deliver(int.MaxValue);
        Settle();
        return socket.ClientRead(_output);
    }

    private void Renew(ref SimulatedSocket socket, bool http)
    {
        if (socket.ServerClosed)
        {
            socket = Connect(http);
        }
    }

    // ---- what came back ----

    private string? Judge(bool http, int length, bool open)
    {
        ReadOnlySpan<byte> output = _output.AsSpan(0, length);
        if (length == _output.Length)
        {
            return "an answer without end";
        }

        return http ? HttpOutput.Fault(output, open) : FastCgiOutput.Fault(output, open);
    }
}
