// From the start of a process until it may accept: it listens, is healthy, warm, and stays so. Asks over its private socket; what it answers to visitors is
// nobody's business here.

using System.Diagnostics;
using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="settings">Those of its application.</param>
internal sealed class InstanceHealth(AppSettings settings)
{
    private const int WarmUpRoundsMax = 20;
    private static readonly TimeSpan s_askAgain = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_endPatience = TimeSpan.FromSeconds(5);

    /// <summary>Waits until it is healthy and warm.</summary>
    /// <exception cref="InstanceException">It is not, and will not be; or its time to start is over.</exception>
    public async Task WaitUntilReadyAsync(AppInstance instance, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(settings.StartTimeout);
        try
        {
            await instance.WaitForStartAsync(limit.Token);
            await WaitForHealthAsync(instance, limit.Token);
            await WarmUpAsync(instance, limit.Token);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            string why = await WhyNotReadyAsync(instance);
            await instance.PrintStacksAsync();
            throw new InstanceException(string.Create(CultureInfo.InvariantCulture, $"Process {instance.ProcessId} was not ready {settings.StartTimeout.TotalSeconds:0.#} s after its start ({why})."));
        }
    }

    /// <summary>Waits while it stays well.</summary>
    /// <exception cref="InstanceException">It has not.</exception>
    public async Task SettleAsync(AppInstance instance, CancellationToken ct)
    {
        long until = Environment.TickCount64 + (long)settings.SettleTimeout.TotalMilliseconds;
        while (Environment.TickCount64 < until)
        {
            await Task.Delay(s_askAgain, ct);
            ThrowIfEnded(instance);
            if (settings.Health is { } path && await instance.AskAsync(path, settings.StartTimeout, ct) is var status && !IsRight(status))
            {
                await ThrowIfEndingAsync(instance, status, ct);
                throw new InstanceException($"Process {instance.ProcessId} did not stay well: {await WhyNotReadyAsync(instance)}.");
            }
        }
    }

    /// <summary>Ends when its health path has been without a right answer for too long; when the token ends, in either case.</summary>
    public async Task HasHungAsync(AppInstance instance, CancellationToken ct)
    {
        if (settings.Health is not { } path)
        {
            await Task.WhenAny(Task.Delay(Timeout.InfiniteTimeSpan, ct));
            return;
        }
        TimeSpan period = TimeSpan.FromMilliseconds(Math.Clamp(settings.HangTimeout.TotalMilliseconds / 5, 50, 5_000));
        TimeSpan fair = TimeSpan.FromMilliseconds(Math.Min(settings.HangTimeout.TotalMilliseconds, 1_000));
        long lastRight = Stopwatch.GetTimestamp();
        TimeSpan Left() => settings.HangTimeout - Stopwatch.GetElapsedTime(lastRight);
        try
        {
            while (true)
            {
                await Task.Delay(period, ct);
                bool isRight = await IsRightAsync(instance, path, Left() > fair ? Left() : fair, ct);

                // Its time may have passed while the daemon itself stood still (a machine that sleeps, SIGSTOP): the last question is asked and answered in time that is.
                isRight = isRight || (Left() <= TimeSpan.Zero && await IsRightAsync(instance, path, fair, ct));
                if (isRight)
                {
                    lastRight = Stopwatch.GetTimestamp();
                }
                else if (Left() <= TimeSpan.Zero)
                {
                    return;
                }
            }
        }
        catch (OperationCanceledException)
        {
            // Nobody wants to know any more.
        }
    }

    private async Task<string> WhyNotReadyAsync(AppInstance instance)
    {
        if (settings.Health is not { } path)
        {
            return "it does not listen, or does not answer its warm-up paths";
        }
        int? status = await instance.AskAsync(path, TimeSpan.FromSeconds(1), CancellationToken.None);
        return status is null ? $"{path} is not answered" : string.Create(CultureInfo.InvariantCulture, $"{path} answers {status}");
    }

    private async Task WaitForHealthAsync(AppInstance instance, CancellationToken ct)
    {
        while (settings.Health is { } path && !IsRight(await instance.AskAsync(path, settings.StartTimeout, ct)))
        {
            ThrowIfEnded(instance);
            await Task.Delay(s_askAgain, ct);
        }
        ThrowIfEnded(instance);
    }

    // Until the answers come steadily: the first request of each path compiles what it needs.
    private async Task WarmUpAsync(AppInstance instance, CancellationToken ct)
    {
        double before = double.MaxValue;
        for (int round = 0; round < WarmUpRoundsMax && settings.WarmUp.Count > 0; round++)
        {
            long begun = Stopwatch.GetTimestamp();
            foreach (string path in settings.WarmUp)
            {
                if (await instance.AskAsync(path, settings.StartTimeout, ct, AnswerReading.WarmUpBytesMax) is var status && status is null or >= 500)
                {
                    await ThrowIfEndingAsync(instance, status, ct);
                    throw new InstanceException($"The warm-up path {path} has failed.");
                }
            }
            double took = Stopwatch.GetElapsedTime(begun).TotalMilliseconds;
            if (round > 1 && took > before * 0.8)
            {
                return;
            }
            before = took;
        }
    }

    // The connections of a process that crashes end before it does, by as long as the system takes to write its memory down: its end says more than theirs.
    private static async Task ThrowIfEndingAsync(AppInstance instance, int? status, CancellationToken ct)
    {
        if (status is null)
        {
            await Task.WhenAny(instance.Exited, Task.Delay(s_endPatience, ct));
            ct.ThrowIfCancellationRequested();
        }
        ThrowIfEnded(instance);
    }

    private static void ThrowIfEnded(AppInstance instance)
    {
        if (instance.Exited.IsCompleted)
        {
            throw new InstanceException($"Process {instance.ProcessId} {instance.Exited.Result}.");
        }
    }

    private static async Task<bool> IsRightAsync(AppInstance instance, string path, TimeSpan timeout, CancellationToken ct)
    {
        try
        {
            return IsRight(await instance.AskAsync(path, timeout, ct));
        }
        catch (InstanceException)
        {
            return false;       // it is too long
        }
    }

    private static bool IsRight(int? status) => status is >= 200 and < 400;
}
