// Responses that are in the socket as far as it goes, to clients that do not read, when something cuts them short: for the tests of how they
// end, over both protocols.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public enum CutBy
{
    Timeout,
    Drain,
    Abort,
}

internal sealed class CutShort
{
    public const int Size = 200_000;
    public const int File = 77;

    private readonly List<TaskCompletionSource> _gates = [];

    public static void SetTimeout(MillraceOptions options) => options.SendTimeout = TimeSpan.FromSeconds(10);

    /// <summary>Writes all of it at once and waits until it has left; for /aborts the response is aborted when the cause has come.</summary>
    public async ValueTask Answer(Request request, Response response)
    {
        response.Write(Plan.Bytes("part", 0, Size));
        ValueTask flush = response.FlushAsync();
        if (request.Path == "/aborts")
        {
            var gate = new TaskCompletionSource();
            _gates.Add(gate);
            await gate.Task;
            response.Abort();
        }

        await flush;
    }

    /// <summary>All connections end for the cause; then their clients read what has been sent.</summary>
    public void Happens(CutBy cause, Bench bench, int clients)
    {
        switch (cause)
        {
            case CutBy.Timeout:
                bench.Pass(TimeSpan.FromSeconds(12));
                Assert.Equal(clients, bench.Refused("send-timeout"));
                break;
            case CutBy.Drain:
                bench.Drain();
                bench.Cut();
                break;
            case CutBy.Abort:
                _gates.ForEach(static gate => gate.SetResult());
                bench.Settle();
                break;
        }

        Assert.Equal(0, bench.Connections);
        bench.Reads = true;
        bench.Settle();
    }
}
