// Random lives of a relay, each from a seed: clients that come, ask, ask again before they are answered, and leave; a responder that answers in pieces, at length,
// wrongly, late or not at all, and ends connections at any moment. Nobody ever gets what was meant for somebody else, nothing stays open, and whoever comes
// afterwards is served.

using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Millrace.Connector;
using Millrace.Platform;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Command;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Connector;

public sealed partial class RandomRelayTests
{
    private const int Lives = 400;
    private const int Steps = 60;

    [Fact]
    public void Nobody_gets_what_was_meant_for_somebody_else()
    {
        for (int seed = 1; seed <= Lives; seed++)
        {
            var random = new SeededRandom((ulong)seed);
            var limits = ConnectionLimits.Default with { ConnectionsMax = random.Chance(30) ? 2 : 1_000 };
            try
            {
                RelayBench.Run(bench => new Life(bench, random).Run(), limits, random.Chance(50) ? "http://127.0.0.1:9000" : "http://unix:/run/front.sock");
            }
            catch (Exception error)
            {
                Assert.Fail($"seed {seed}: {error}");
            }
        }
    }

    [GeneratedRegex("HTTP_X_ID([0-9]{6})")]
    private static partial Regex IdOf { get; }

    private sealed class Life(RelayBench bench, SeededRandom random)
    {
        private readonly List<(HttpPeer Peer, List<string> Ids)> _clients = [];
        private readonly List<(SimulatedResponder Responder, string Id)> _asked = [];
        private int _lastId = 100_000;

        public void Run()
        {
            bench.Simulation.World.Faults.RefusedSend = random.Chance(30) ? 10 : 0;
            bench.Simulation.World.SendCapacityMax = random.Chance(30) ? 3_000 : 256 * 1024;
            bench.OnRequest = responder => _asked.Add((responder, IdOf.Match(responder.ContentText).Groups[1].Value));
            for (int i = 0; i < Steps; i++)
            {
                Step();
                Relent();
                _clients.ForEach(Check);
            }

            bench.Simulation.World.Faults.RefusedSend = 0;
            bench.ConnectResult = 0;
            _clients.ForEach(client => client.Peer.Socket.ClientClose());
            bench.Pass(TimeSpan.FromSeconds(5));
            bench.OthersAreServed();
        }

        private void Step()
        {
            switch (random.Below(10))
            {
                case 0 when _clients.Count < 6:
                    _clients.Add((bench.Connect(), []));
                    break;
                case <= 3 when _clients.Count > 0:
                    Ask(_clients[random.Below(_clients.Count)]);
                    break;
                case <= 6 when _asked.Count > 0:
                    int index = random.Below(_asked.Count);
                    (SimulatedResponder responder, string id) = _asked[index];
                    _asked.RemoveAt(index);
                    if (!responder.Socket.ServerClosed && !responder.Socket.ClientGone)
                    {
                        Answer(responder, id);
                    }

                    break;
                case 7 when bench.Responders.Count > 0:
                    Disturb(bench.Responders[random.Below(bench.Responders.Count)]);
                    break;
                case 8 when _clients.Count > 0 && random.Chance(40):
                    _clients[random.Below(_clients.Count)].Peer.Socket.ClientClose();
                    bench.Settle();
                    break;
                default:
                    bench.ConnectResult = random.Chance(15) ? (random.Chance(50) ? KernelResult.Again : KernelResult.Refused) : 0;
                    bench.Pass(TimeSpan.FromMilliseconds(random.Below(400)));
                    bench.Sweep();
                    break;
            }
        }

        private void Ask((HttpPeer Peer, List<string> Ids) client)
        {
            if (client.Peer.Socket.ClientGone || client.Peer.Socket.ServerClosed)
            {
                return;
            }

            var text = new StringBuilder();
            for (int i = random.Between(1, 3); i > 0; i--)
            {
                string id = (++_lastId).ToString(CultureInfo.InvariantCulture);
                client.Ids.Add(id);
                bool posts = random.Chance(30);
                client.Peer.Expect(posts ? "POST" : "GET");
                text.Append(CultureInfo.InvariantCulture, $"{(posts ? "POST" : "GET")} /x HTTP/1.1\r\nHost: app\r\nX-Id: {id}\r\n{(posts ? "Content-Length: 3\r\n" : "")}\r\n{(posts ? "abc" : "")}");
            }

            byte[] bytes = Encoding.ASCII.GetBytes(text.ToString());
            int cut = random.Chance(50) ? bytes.Length : random.Below(bytes.Length);
            bench.Send(client.Peer, bytes.AsSpan(0, cut));
            bench.Send(client.Peer, bytes.AsSpan(cut));
        }

        private void Answer(SimulatedResponder responder, string id)
        {
            string head = random.Chance(50) ? "X: 1\r\n\r\n" : "Content-Type: text/x\r\n\r\n";
            byte[] answer = random.Below(5) switch
            {
                0 => [.. Stdout(head + id), .. Stdout(new string('x', random.Size(60_000))), .. Stdout(new string('y', random.Size(60_000))), .. ScriptedResponder.End()],
                1 => [.. Stdout($"Content-Length: 6\r\n\r\n{id}"), .. ScriptedResponder.Record(RecordType.Stderr, "said"), .. ScriptedResponder.End()],
                _ => ScriptedResponder.Answer(head + id),
            };
            int cut = random.Chance(50) ? answer.Length : random.Below(answer.Length);
            responder.Send(answer.AsSpan(0, cut));
            bench.Settle();
            switch (random.Below(8))
            {
                case 0:
                    responder.Close();
                    break;
                case 1 when cut == 0 || cut == answer.Length:       // elsewhere it would be a part of the answer
                    responder.Send([0, 0, 0, 0, 0, 0, 0, 0]);
                    break;
                default:
                    responder.Send(answer.AsSpan(cut));
                    break;
            }

            bench.Settle();
        }

        // It ends a connection, or says what nobody has asked for, whether anybody waits for it or not.
        private void Disturb(SimulatedResponder responder)
        {
            bool isIdle = !_asked.Exists(asked => asked.Responder == responder);
            if (responder.Socket.ServerClosed || responder.Socket.ClientGone)
            {
                return;
            }

            if (isIdle && random.Chance(50))
            {
                responder.Send([.. Stdout("X: 2\r\n\r\nnobody's"), .. ScriptedResponder.End()]);
                _ = responder.Socket.Deliver(int.MaxValue);     // what is still on its way when the next request is sent nobody could tell from its answer
            }
            else
            {
                responder.Close();
            }

            if (random.Chance(50))
            {
                bench.Settle();
            }
        }

        private void Relent()
        {
            foreach (SimulatedSocket socket in bench.Responders.Select(static responder => responder.Socket).Concat(_clients.Select(static client => client.Peer.Socket)))
            {
                socket.Relent();
            }

            bench.Settle();
        }

        private static void Check((HttpPeer Peer, List<string> Ids) client)
        {
            for (int i = 0; i < client.Peer.Answers.Count; i++)
            {
                HttpAnswer answer = client.Peer.Answers[i];
                bool isItsOwn = answer.Status == 200 && (answer.BodyText == "handler" || answer.BodyText.StartsWith(client.Ids[i], StringComparison.Ordinal));
                Assert.True(isItsOwn || answer.Status is 502 or 503, $"request {client.Ids[i]} was answered {answer.Status} {answer.BodyText[..Math.Min(80, answer.BodyText.Length)]}");
            }
        }

        private static byte[] Stdout(string text) => ScriptedResponder.Record(RecordType.Stdout, Encoding.Latin1.GetBytes(text));
    }
}
