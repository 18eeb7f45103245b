// One request of a client whose connection moves between processes: what its handler does, who has run it, and what must come back.

using Millrace.Handlers;

namespace Millrace.Tests.Simulation;

/// <param name="Name">Its path.</param>
/// <param name="BodyLength">Bytes of its body; 0: none.</param>
/// <param name="AnswerLength">Bytes of the body of its answer.</param>
/// <param name="Acts">What its handler does ahead of the end of its answer, a letter each: r reads the body, p pauses, b blocks, f sends half of what is left.</param>
internal sealed record MovedRequest(string Name, int BodyLength, int AnswerLength, string Acts)
{
    /// <summary>The connection it is sent on.</summary>
    public SimulatedSocket Socket { get; set; } = null!;

    /// <summary>Where its bytes begin in what its client sends.</summary>
    public long From { get; set; }

    public long End { get; set; }

    /// <summary>How often a handler was asked, in all processes together.</summary>
    public int Started { get; private set; }

    /// <summary>Which process has run it last.</summary>
    public Simulation? RunBy { get; private set; }

    public string RequestPattern => Name + "<";

    public string AnswerPattern => Name + ">";

    /// <summary>Its handler has ended.</summary>
    public bool IsFinished { get; private set; }

    /// <summary>FastCGI: where its records begin, counted as <see cref="From"/>. Whoever answers it ahead of its end leaves the rest, whole records, to be passed over by any reader.</summary>
    public List<long> Records { get; } = [];

    /// <summary>As soon as a byte of it has been read, it is one process's.</summary>
    public string? Torn()
    {
        List<(SimulatedWorld Process, long From)> takers = Socket.TakersOf(From, End);
        return takers.Count > 1 && !(IsFinished && takers.TrueForAll(taker => taker.From == From || Records.Contains(taker.From)))
            ? $"bytes of request {Name} were taken by {takers.Count} processes, from {string.Join(", ", takers.Select(static taker => taker.From))} on"
            : null;
    }

    /// <summary>The handler of every process.</summary>
    public static async ValueTask Answer(Simulation process, Dictionary<string, MovedRequest> requests, Request request, Response response)
    {
        if (!requests.TryGetValue(request.Path, out MovedRequest? its))
        {
            process.Violated($"a request for {request.Path}, which nobody sent");
            return;
        }

        process.Trace("run", its.Socket.Number, its.From);
        its.RunBy = process;
        if (its.Started++ > 0)
        {
            process.Violated($"request {its.Name} was run {its.Started} times");
        }

        if (its.Socket.TakersOf(its.From, its.End) is not [var (taker, _)] || taker != process.World)
        {
            process.Violated($"request {its.Name} was run by a process that has not read it");
        }

        try
        {
            await its.Perform(process, request, response);
        }
        catch (Exception error) when (!process.HasEnded)
        {
            process.Violated($"nobody has left, but the handler of request {its.Name} saw {error}");
        }
    }

    private async ValueTask Perform(Simulation process, Request request, Response response)
    {
        response.AddHeader("X-Name", Name);
        if (AnswerLength % 2 == 0)
        {
            response.ContentLength = AnswerLength;
        }

        int written = 0;
        foreach (char act in Acts)
        {
            switch (act)
            {
                case 'r':
                    await ReadAll(process, request);
                    break;
                case 'p':
                    await process.Pause();
                    break;
                case 'b':
                    process.Block();
                    break;
                default:
                    int half = (AnswerLength - written) / 2;
                    await response.WriteAsync(Plan.Bytes(AnswerPattern, written, half));
                    written += half;
                    break;
            }

            if (process.HasEnded)
            {
                return;
            }
        }

        IsFinished = true;
        response.Write(Plan.Bytes(AnswerPattern, written, AnswerLength - written));
    }

    private async ValueTask ReadAll(Simulation process, Request request)
    {
        byte[] buffer = new byte[3_000];
        int length = 0;
        for (int count; (count = await request.ReadAsync(buffer)) > 0; length += count)
        {
            if (!Plan.Matches(RequestPattern, length, buffer.AsSpan(0, count)))
            {
                process.Violated($"request {Name} was given body bytes that are not its own, from {length} on");
            }
        }

        if (length != BodyLength)
        {
            process.Violated($"request {Name} has a body of {BodyLength} bytes, but its handler was given {length}");
        }
    }
}
