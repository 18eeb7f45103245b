// Plays what a front end once sent to a server over the simulated kernel and writes down what comes of it: what the handler
// saw, what was answered, how the connection ended. The bytes come whole, in two parts or one by one; the outcome may not
// depend on it. Not here: where the traces come from (tests/Millrace.Interop/Traces).

using System.Buffers;
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Traces;

internal sealed partial class Replay
{
    private readonly bool _isFastCgi;
    private readonly Simulation.Simulation _simulation;
    private readonly SimulatedSocket _socket;
    private readonly List<string> _notes = [];
    private readonly ArrayBufferWriter<byte> _received = new();

    private Replay(bool isFastCgi)
    {
        _isFastCgi = isFastCgi;
        _simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Address = isFastCgi ? "fastcgi://127.0.0.1:9000" : "http://127.0.0.1:5000",
            Options = new MillraceOptions { Loops = 1 }.Validate(),
            Handler = _ => new DelegateHandler(HandleAsync),
        });
        _socket = _simulation.World.Connect(_simulation.Listener);
        Settle();
    }

    /// <summary>The outcome of the given parts, sent one after the other.</summary>
    public static string Of(bool isFastCgi, params ReadOnlySpan<byte[]> parts)
    {
        var replay = new Replay(isFastCgi);
        foreach (byte[] part in parts)
        {
            replay._socket.ClientSend(part);
            replay.Settle();
        }

        return replay.Finish();
    }

    /// <summary>The outcome of the bytes sent one by one.</summary>
    public static string Bytewise(bool isFastCgi, byte[] bytes)
    {
        var replay = new Replay(isFastCgi);
        foreach (byte b in bytes)
        {
            replay._socket.ClientSend([b]);
            _ = replay._socket.Deliver(1);
            replay._simulation.Settle();
        }

        replay.Settle();
        return replay.Finish();
    }

    // Below /abort the handler waits until the client is gone, as the recorded one did; else it says what it was asked.
    private async ValueTask HandleAsync(Request request, Response response)
    {
        _notes.Add($"handler: {request.Method} {request.Target}");
        if (request.Path.StartsWith("/abort", StringComparison.Ordinal))
        {
            var aborted = new TaskCompletionSource();
            using CancellationTokenRegistration registration = request.Aborted.UnsafeRegister(_ => aborted.TrySetResult(), null);
            await aborted.Task;
            _notes.Add("handler: aborted");
            return;
        }

        long length = 0;
        uint sum = 0;
        byte[] buffer = new byte[8 * 1024];
        for (int count; (count = await request.ReadAsync(buffer)) > 0; length += count)
        {
            foreach (byte b in buffer.AsSpan(0, count))
            {
                sum = (sum * 31) + b;
            }
        }

        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture, $"{request.Method} {request.Target}\npath {request.Path}\nquery {request.QueryString}\n");
        text.Append(CultureInfo.InvariantCulture, $"scheme {request.Scheme}\nhost {request.Host}\nremote {request.RemoteAddress}\n");
        text.Append(CultureInfo.InvariantCulture, $"announced {request.ContentLength?.ToString(CultureInfo.InvariantCulture) ?? "nothing"}, body {length} bytes, sum {sum:x8}\n");
        foreach ((string name, Microsoft.Extensions.Primitives.StringValues values) in request.Headers.OrderBy(static pair => pair.Key, StringComparer.Ordinal))
        {
            text.Append(CultureInfo.InvariantCulture, $"{name}: {string.Join(" | ", values.ToArray())}\n");
        }

        response.WriteText(text.ToString());
    }

    // Everybody does what he can until nobody can do anything.
    private void Settle()
    {
        byte[] buffer = new byte[16 * 1024];
        for (bool busy = true; busy;)
        {
            busy = false;
            _simulation.Settle();
            while (_socket.CanDeliver)
            {
                busy = true;
                _ = _socket.Deliver(int.MaxValue);
                _simulation.Settle();
            }

            for (int count; (count = _socket.ClientRead(buffer)) > 0; busy = true)
            {
                _received.Write(buffer.AsSpan(0, count));
            }
        }

        Assert.Null(_simulation.Failure);
    }

    // The front end closes; the server has nothing left of it.
    private string Finish()
    {
        string end = _socket.AtEnd ? "the server closed" : "the front end closed";
        if (!_socket.AtEnd)
        {
            _socket.ClientClose();
            Settle();
        }

        for (int i = 0; i < 30; i++)
        {
            _simulation.World.NowMs += 100;
            Settle();
        }

        Assert.Equal(0, _simulation.Services.Connections);
        Assert.Equal(0, _simulation.Handler.Running);
        string answers = _isFastCgi ? Records() : Encoding.UTF8.GetString(_received.WrittenSpan);
        return $"{string.Join('\n', _notes)}\n---- answered\n{Date().Replace(answers.ReplaceLineEndings("\n"), "")}\n---- {end}\n";
    }

    // What came back over FastCGI: streams joined, everything else by its name.
    private string Records()
    {
        var text = new StringBuilder();
        ReadOnlySpan<byte> rest = _received.WrittenSpan;
        while (!rest.IsEmpty)
        {
            int length = BinaryPrimitives.ReadUInt16BigEndian(rest[4..]);
            ReadOnlySpan<byte> content = rest.Slice(8, length);
            int id = BinaryPrimitives.ReadUInt16BigEndian(rest[2..]);
            _ = rest[1] switch
            {
                Wire.Stdout or Wire.Stderr => text.Append(Encoding.UTF8.GetString(content)),
                Wire.End => text.Append(CultureInfo.InvariantCulture, $"END_REQUEST {id}: {Convert.ToHexString(content)}\n"),
                _ => text.Append(CultureInfo.InvariantCulture, $"record of type {rest[1]}: {Encoding.Latin1.GetString(content).Replace("\0", "\\0", StringComparison.Ordinal)}\n"),
            };
            rest = rest[(8 + length + rest[6])..];
        }

        return text.ToString();
    }

    [GeneratedRegex("^Date: .*\n", RegexOptions.Multiline)]
    private static partial Regex Date();
}
