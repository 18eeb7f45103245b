// A plain handler that does what the plan of its request says, and checks every byte of the request's body.

using Millrace.AspNetCore;
using Millrace.Exchanges;

namespace Millrace.Tests.Simulation;

internal sealed class PlanHandler(Func<Simulation> simulation, Func<string, Plan?> planOf)
{
    // Bytes of a response that the server may keep to itself beyond those written without waiting: what it collects before it sends.
    private const int UnsentMax = 40_000;

    private const int KeptMax = 6;

    private readonly Queue<KeptRequest> _kept = new();
    private int _files = 1_000_000;

    public ValueTask Handle(Request request, Response response)
    {
        Simulation world = simulation();
        if (planOf(request.Path) is not { } plan)
        {
            world.Violated($"a request for {request.Path}, which nobody sent");
            return default;
        }

        if (plan.Socket is not { } socket || socket.TakenByServer < plan.HeadEnd)
        {
            world.Violated($"request {plan.Name} was run before its head was received");
        }

        if (plan.Started++ > 0)
        {
            world.Violated($"request {plan.Name} was run twice");
        }

        if (plan.Id % 2 == 0)
        {
            Keep(world, new KeptRequest(world.Handler.Current!, plan, request, response));
        }

        return Perform(world, world.Handler.Current!, plan, request, response);
    }

    // What others have kept is used while this one runs: in its turn, on its thread.
    private void Keep(Simulation world, KeptRequest kept)
    {
        foreach (KeptRequest each in _kept)
        {
            if (each.Misuse() is { } wrong)
            {
                world.Violated(wrong);
            }
        }

        _kept.Enqueue(kept);
        if (_kept.Count > KeptMax)
        {
            _ = _kept.Dequeue();
        }
    }

    private async ValueTask Perform(Simulation world, Exchange exchange, Plan plan, Request request, Response response)
    {
        try
        {
            if (plan.DeclaresLength)
            {
                response.ContentLength = plan.WrittenLength;
            }

            response.AddHeader("X-Name", plan.Name);
            if (plan.BlocksOnAbort)
            {
                request.Aborted.UnsafeRegister(static state => ((Simulation)state!).Block(), world);
            }

            int written = 0;
            int unawaited = 0;
            var begun = new List<Task>();
            int begunBytes = 0;
            long sentBefore = plan.Socket!.SentByServer;
            foreach ((Act act, int count) in plan.Acts)
            {
                if (plan.AwaitsLate && act is Act.WriteAsync or Act.SendFile or Act.Flush)
                {
                    begun.Add(act switch
                    {
                        Act.WriteAsync => response.WriteAsync(Plan.Bytes(plan.ResponsePattern, written, count)).AsTask(),
                        Act.SendFile => SendFile(world, exchange, Plan.Bytes(plan.ResponsePattern, written, count), count).AsTask(),
                        _ => response.FlushAsync().AsTask(),
                    });
                    int added = act == Act.Flush ? 0 : count;
                    plan.Written = written += added;
                    begunBytes += added;
                    unawaited += added;
                    continue;
                }

                if (act != Act.Write)
                {
                    await AwaitAll(begun);
                    unawaited -= begunBytes;
                    begunBytes = 0;
                }

                switch (act)
                {
                    case Act.Write:
                        response.Write(Plan.Bytes(plan.ResponsePattern, written, count));
                        plan.Written = written += count;
                        unawaited += count;
                        break;
                    case Act.WriteAsync:
                        await response.WriteAsync(Plan.Bytes(plan.ResponsePattern, written, count));
                        plan.Written = written += count;
                        break;
                    case Act.SendFile:
                        await SendFile(world, exchange, Plan.Bytes(plan.ResponsePattern, written, count), count);
                        plan.Written = written += count;
                        break;
                    case Act.SendShortFile:
                        plan.Written = written + (count / 2);
                        await SendFile(world, exchange, Plan.Bytes(plan.ResponsePattern, written, count / 2), count);
                        break;
                    case Act.SendBrokenFile:
                        await SendFile(world, exchange, null, count);
                        break;
                    case Act.Flush:
                        await response.FlushAsync();
                        break;
                    case Act.Pause:
                        await world.Pause();
                        break;
                    case Act.Sleep:
                        await world.Sleep(count);
                        break;
                    case Act.Block:
                        world.Block(count);
                        break;
                    case Act.ReadSome:
                        await Read(world, plan, request, count);
                        break;
                    case Act.ReadPipe:
                        await ReadPipe(world, plan, request, count);
                        break;
                    case Act.LeaveRead:
                        plan.BodyWanted = true;
                        _ = request.ReadAsync(new byte[Math.Max(1, count)]).AsTask();
                        break;
                    case Act.ReadAll:
                        await ReadAll(world, exchange, plan, request);
                        break;
                    case Act.WaitForAbort:
                        await Cancelled(request.Aborted);
                        break;
                    case Act.AskToClose:
                        response.AddHeader("Connection", "close");
                        break;
                    case Act.Upgrade:
                        await Tunnel(world, exchange);
                        break;
                    case Act.Abort:
                        response.Abort();
                        break;
                    case Act.End:
                        End(world, exchange, plan);
                        break;
                    case Act.Complete:
                        await Complete(exchange, plan);
                        break;
                    case Act.AwaitAnswer:
                        await plan.Answered.Task;
                        break;
                    default:
                        throw new InvalidTimeZoneException("thrown by the handler, as planned");
                }

                long unsent = written - unawaited - (plan.Socket.SentByServer - sentBefore);
                if (unsent > UnsentMax && !plan.IsDisturbed && !plan.IsHead && !plan.BreaksOff && !world.IsCutting && !exchange.Life.IsUnwanted)
                {
                    world.Violated($"the server holds {unsent} bytes of the response of {plan.Name}, which its handler has waited for");
                }
            }

            await AwaitAll(begun);
        }
        catch (Exception error) when (error is not InvalidTimeZoneException && !plan.HasEnded && !(plan.FailsInFile && error is IOException) && !plan.IsDisturbed && !world.IsCutting)
        {
            world.Violated($"request {plan.Name} was undisturbed, but its handler saw {error}");
        }
        finally
        {
            plan.Finished++;
            plan.FinishedMs = world.World.NowMs;
            world.Trace("handler ends", plan.Id, plan.BodyRead);
        }
    }

    // As hosting has it before the callbacks of OnCompleted.
    private static void End(Simulation world, Exchange exchange, Plan plan)
    {
        plan.HasEnded = true;
        exchange.End();
        if (exchange.IsInline && world.Random.Chance(50))
        {
            exchange.Sender.DeferEnd();
        }
        else
        {
            exchange.Sender.SendEnd();
        }
    }

    // As CompleteAsync does it.
    private static async ValueTask Complete(Exchange exchange, Plan plan)
    {
        long ticket = exchange.Ticket;
        await exchange.Writes.WhenIdle(ticket).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        plan.HasEnded = true;
        if (!exchange.Gate.TryEnterAgain(ticket))
        {
            return;
        }

        ValueTask sent;
        try
        {
            sent = exchange.Complete();
        }
        finally
        {
            exchange.Gate.ExitForGood(ticket);
        }

        await sent;
    }

    private static async ValueTask AwaitAll(List<Task> begun)
    {
        foreach (Task each in begun)
        {
            await each;
        }

        begun.Clear();
    }

    private static async ValueTask<int> Read(Simulation world, Plan plan, Request request, int count)
    {
        byte[] buffer = new byte[Math.Max(1, count)];
        plan.BodyWanted = true;
        plan.ReadsSinceMs = world.World.NowMs;
        int got;
        try
        {
            got = await request.ReadAsync(buffer);
        }
        finally
        {
            plan.ReadsSinceMs = 0;
        }

        if (!plan.IsGarbled && !Plan.Matches(plan.RequestPattern, plan.BodyRead, buffer.AsSpan(0, got)))
        {
            world.Violated($"request {plan.Name} was given body bytes that are not its own, from {plan.BodyRead} on");
        }

        plan.BodyRead += got;
        return got;
    }

    // Looks at all there is and takes some of it.
    private static async ValueTask ReadPipe(Simulation world, Plan plan, Request request, int count)
    {
        plan.BodyWanted = true;
        plan.ReadsSinceMs = world.World.NowMs;
        System.IO.Pipelines.ReadResult result;
        try
        {
            result = await request.BodyReader.ReadAsync();
        }
        finally
        {
            plan.ReadsSinceMs = 0;
        }

        byte[] bytes = System.Buffers.BuffersExtensions.ToArray(result.Buffer);
        if (!plan.IsGarbled && !Plan.Matches(plan.RequestPattern, plan.BodyRead, bytes))
        {
            world.Violated($"request {plan.Name} was shown body bytes that are not its own, from {plan.BodyRead} on");
        }

        int taken = Math.Min(count, bytes.Length);
        request.BodyReader.AdvanceTo(result.Buffer.GetPosition(taken));
        plan.BodyRead += taken;
    }

    private static async ValueTask ReadAll(Simulation world, Exchange exchange, Plan plan, Request request)
    {
        while (await Read(world, plan, request, 3_000) > 0)
        {
        }

        plan.BodyWasWhole = true;
        if (plan.HasTrailer && plan.IsChunked && !plan.IsGarbled && exchange.Trailers?["X-Trailer"].ToString() != plan.Name)
        {
            world.Violated($"request {plan.Name} has a trailer, but its handler was given \"{exchange.Trailers?["X-Trailer"]}\"");
        }

        if (plan.BodyRead != plan.BodyLength && !plan.IsGarbled)
        {
            world.Violated($"request {plan.Name} has a body of {plan.BodyLength} bytes, but its handler was given {plan.BodyRead} and then the end");
        }
    }

    // Gives back what comes until the peer has finished.
    private static async ValueTask Tunnel(Simulation world, Exchange exchange)
    {
        long ticket = exchange.Ticket;
        BodyReader reader = exchange.Upgrade();
        await using var tunnel = new TunnelStream(new RequestStream(reader, exchange, ticket), new ResponseStream(exchange, ticket, null, Direction.Tunnel));
        await tunnel.FlushAsync();
        byte[] buffer = new byte[5_000];
        for (int count; (count = await tunnel.ReadAsync(buffer)) > 0;)
        {
            if (world.Random.Chance(20))
            {
                await world.Pause();
            }

            await tunnel.WriteAsync(buffer.AsMemory(0, count));
            await tunnel.FlushAsync();
        }
    }

    private static Task Cancelled(CancellationToken token)
    {
        var source = new TaskCompletionSource();
        token.UnsafeRegister(static state => ((TaskCompletionSource)state!).TrySetResult(), source);
        return source.Task;
    }

    private async ValueTask SendFile(Simulation world, Exchange exchange, byte[]? content, int count)
    {
        int file = ++_files;
        world.World.Files[file] = content;
        await exchange.SendSimulatedFileAsync(file, count);
        world.World.Files.Remove(file);
    }
}
