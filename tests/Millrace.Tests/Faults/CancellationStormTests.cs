// Hundreds of requests that are given up at once, by every means a peer has, while their handlers wait, with callbacks of the abort
// token that throw, block and write. Over the simulated kernel.

using System.Text;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Faults;

public sealed class CancellationStormTests
{
    private const int Requests = 600;

    private int _told;
    private int _ended;
    private Simulation.Simulation? _simulation;

    private async ValueTask Handle(Request request, Response response)
    {
        if (request.Path == "/other")
        {
            response.WriteText("well");
            return;
        }

        var aborted = new TaskCompletionSource();
        CancellationToken token = request.Aborted;
        token.UnsafeRegister(_ => _told++, null);
        token.UnsafeRegister(static _ => throw new InvalidTimeZoneException("thrown by a callback, as it is to be"), null);
        token.UnsafeRegister(_ => _simulation!.Block(3), null);
        token.UnsafeRegister(_ => aborted.TrySetResult(), null);
        response.WriteText("begun");
        if (request.Path.Length % 2 == 0)
        {
            await response.FlushAsync(CancellationToken.None);
        }

        await aborted.Task;
        response.Write(new byte[50_000]);
        await response.WriteAsync(new byte[200_000], CancellationToken.None);
        _ended++;
        if (request.Path.Length % 3 == 0)
        {
            throw new OperationCanceledException("the handler gives up", token);
        }
    }

    [Theory]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Adaptive)]
    [InlineData(DispatchMode.Workers)]
    public void Requests_given_up_all_at_once_end_all_and_harm_nobody(DispatchMode dispatch) => SimulationThread.Run(() =>
    {
        var simulation = _simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Loops = 2,
            Options = new MillraceOptions { Loops = 2, Dispatch = dispatch, DriversMax = 700 },
            HttpIsTcp = true,
            HasFingerprint = false,
            Handler = _ => new DelegateHandler(Handle),
        });
        SimulatedSocket[] sockets = [.. Enumerable.Range(0, Requests).Select(i => Ask(simulation, http: i % 2 == 1, "/" + new string('w', i % 7)))];
        Assert.Equal(Requests, simulation.Handler.Running);
        for (int i = 0; i < Requests; i++)
        {
            switch (i % 4)
            {
                case 0:
                    sockets[i].ClientSend(Wire.Record(Wire.Abort, 1, []));
                    break;
                case 1:
                    sockets[i].ClientReset();
                    break;
                default:
                    sockets[i].ClientClose();
                    break;
            }

            sockets[i].Deliver(int.MaxValue);
        }

        simulation.Settle();
        Assert.Null(simulation.Failure);
        Assert.Equal((Requests, Requests), (_told, _ended));
        Assert.Equal(0, simulation.Handler.Running);
        foreach (bool http in new[] { false, true })
        {
            byte[] answer = new byte[1_000];
            int length = Ask(simulation, http, "/other").ClientRead(answer);
            Assert.Contains("well", Encoding.Latin1.GetString(answer, 0, length), StringComparison.Ordinal);
        }
    });

    private static SimulatedSocket Ask(Simulation.Simulation simulation, bool http, string path)
    {
        SimulatedSocket socket = simulation.World.Connect(http ? simulation.HttpListener! : simulation.Listener);
        socket.ClientSend(http ? Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n") : Wire.Request(path));
        simulation.Settle();
        socket.Deliver(int.MaxValue);
        simulation.Settle();
        return socket;
    }
}
