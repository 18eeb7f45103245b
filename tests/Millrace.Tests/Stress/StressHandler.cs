// The application under stress: a plain handler that does whatever the request's kind says. Keeps count of how often each
// request was run.

using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Millrace.Tests.Stress;

internal sealed class StressHandler(int requestsMax)
{
    private static readonly TimeSpan s_abortPatience = TimeSpan.FromSeconds(15);

    private readonly int[] _runs = new int[requestsMax];
    private int _abortsSeen;
    private int _abortsMissed;
    private int _leaksRefused;
    private int _leaksRunning;

    /// <summary>How often each request has been run.</summary>
    public ReadOnlySpan<int> Runs => _runs;

    /// <summary>Handlers that were told that nobody waits for them.</summary>
    public int AbortsSeen => Volatile.Read(ref _abortsSeen);

    /// <summary>Handlers that were not told within their patience.</summary>
    public int AbortsMissed => Volatile.Read(ref _abortsMissed);

    /// <summary>Writes after the end of a request that were refused.</summary>
    public int LeaksRefused => Volatile.Read(ref _leaksRefused);

    public int LeaksRunning => Volatile.Read(ref _leaksRunning);

    public ValueTask Handle(Request request, Response response)
    {
        // /kind?id&number
        string query = request.QueryString;
        int separator = query.IndexOf('&', StringComparison.Ordinal);
        int id = int.Parse(query.AsSpan(1, separator - 1), CultureInfo.InvariantCulture);
        int number = int.Parse(query.AsSpan(separator + 1), CultureInfo.InvariantCulture);
        Interlocked.Increment(ref _runs[id]);
        response.AddHeader("X-Id", id.ToString(CultureInfo.InvariantCulture));
        switch (Enum.Parse<StressKind>(request.Path.AsSpan(1)))
        {
            case StressKind.Hello:
                Hello(response, id);
                return default;
            case StressKind.Spin:
                Spin(number);
                Hello(response, id);
                return default;
            case StressKind.Sleep:
                Thread.Sleep(number);
                Hello(response, id);
                return default;
            case StressKind.Delay:
                return Delay(response, id, number);
            case StressKind.Yield:
                return Yield(response, id, number);
            case StressKind.Upload:
                return Upload(request, response);
            case StressKind.Stream:
                return Stream(request, response, id, number);
            case StressKind.Throw:
                response.Write("never seen"u8);
                throw new InvalidOperationException(StressContent.ThrownMessage);
            case StressKind.ThrowLater:
                return ThrowLater();
            case StressKind.ThrowMidway:
                return ThrowMidway(response, id, number);
            case StressKind.Leak:
                Leak(response.Body, id);
                Hello(response, id);
                return default;
            default:
                return UntilAborted(request, response, number);
        }
    }

    private static void Hello(Response response, int id)
    {
        response.ContentType = "text/plain";
        response.Write(StressContent.Hello(id));
    }

    private static void Spin(int microseconds)
    {
        long end = Stopwatch.GetTimestamp() + (microseconds * Stopwatch.Frequency / 1_000_000);
        while (Stopwatch.GetTimestamp() < end)
        {
        }
    }

    private static async ValueTask Delay(Response response, int id, int milliseconds)
    {
        await Task.Delay(milliseconds);
        Hello(response, id);
    }

    private static async ValueTask Yield(Response response, int id, int times)
    {
        byte[] content = StressContent.Hello(id);
        response.ContentType = "text/plain";
        response.ContentLength = content.Length;
        for (int i = 0; i < times; i++)
        {
            await Task.Yield();
            response.Write(content.AsSpan(i * content.Length / times, ((i + 1) * content.Length / times) - (i * content.Length / times)));
            await response.FlushAsync();
        }
    }

    private static async ValueTask Upload(Request request, Response response)
    {
        byte[] buffer = ArrayPool<byte>.Shared.Rent(16 * 1024);
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        long length = 0;
        int count;
        while ((count = await request.ReadAsync(buffer)) > 0)
        {
            hash.AppendData(buffer, 0, count);
            length += count;
        }

        ArrayPool<byte>.Shared.Return(buffer);
        response.ContentType = "text/plain";
        response.Write(Encoding.ASCII.GetBytes($"{length.ToString(CultureInfo.InvariantCulture)} {Convert.ToHexString(hash.GetHashAndReset())}"));
    }

    private async ValueTask Stream(Request request, Response response, int id, int length)
    {
        response.ContentType = "application/octet-stream";
        response.ContentLength = length;
        byte[] block = ArrayPool<byte>.Shared.Rent(24 * 1024);
        for (int at = 0; at < length;)
        {
            int count = Math.Min(1 + (int)((uint)(id * 7919 + at) % 24_000), length - at);
            StressContent.Fill(block.AsSpan(0, count), id, at);
            await response.WriteAsync(block.AsMemory(0, count));
            at += count;
            if (at % 3 == 0)
            {
                await response.FlushAsync();
            }

            if (request.Aborted.IsCancellationRequested)
            {
                Interlocked.Increment(ref _abortsSeen);
                break;
            }
        }

        ArrayPool<byte>.Shared.Return(block);
    }

    private static async ValueTask ThrowLater()
    {
        await Task.Yield();
        throw new InvalidOperationException(StressContent.ThrownMessage);
    }

    private static async ValueTask ThrowMidway(Response response, int id, int number)
    {
        response.ContentType = "text/plain";
        response.Write(StressContent.Hello(id));
        await response.FlushAsync();
        if (number % 2 == 0)
        {
            await Task.Yield();
        }

        throw new InvalidOperationException(StressContent.ThrownMessage);
    }

    // What no handler should do: the stream is used when its request is over and the exchange serves another.
    private void Leak(Stream body, int id)
    {
        byte[] content = Encoding.ASCII.GetBytes(StressContent.Leaked(id));
        Interlocked.Increment(ref _leaksRunning);
        _ = Task.Run(async () =>
        {
            try
            {
                await Task.Delay(3);
                for (int i = 0; i < 20; i++)
                {
                    await body.WriteAsync(content);
                    await body.FlushAsync();
                }
            }
            catch (Exception error) when (error is ObjectDisposedException or InvalidOperationException)
            {
                Interlocked.Increment(ref _leaksRefused);
            }
            finally
            {
                Interlocked.Decrement(ref _leaksRunning);
            }
        });
    }

    private async ValueTask UntilAborted(Request request, Response response, int number)
    {
        CancellationToken aborted = request.Aborted;
        if (number % 3 == 1)
        {
            await response.FlushAsync();
        }

        try
        {
            await Task.Delay(s_abortPatience, aborted);
            Interlocked.Increment(ref _abortsMissed);
        }
        catch (OperationCanceledException)
        {
            Interlocked.Increment(ref _abortsSeen);
            if (number % 2 == 0)
            {
                throw;
            }

            response.Write("too late"u8);
        }
    }
}
