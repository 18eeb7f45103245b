// Bodies that an application keeps and reads when their request is over: they never give a byte of another request's body,
// and never take one from it.

using System.Buffers;
using System.Collections.Concurrent;
using System.IO.Pipelines;
using System.Threading.Channels;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class KeptBodyTests : IDisposable
{
    private const int Size = 300;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    /// <param name="kind">How the thief reads: a stream or the pipe.</param>
    /// <param name="waits">Whether it waits for bytes that have not come when its request ends, or takes from those that have.</param>
    [Theory]
    [InlineData("stream", false)]
    [InlineData("stream", true)]
    [InlineData("pipe", false)]
    [InlineData("pipe", true)]
    public async Task A_reader_that_outlives_its_request_gets_no_byte_of_the_next(string kind, bool waits)
    {
        var foreign = new ConcurrentQueue<string>();
        var kept = Channel.CreateUnbounded<(Request Request, Stream Body, PipeReader Pipe, byte Tag)>();
        int raced = 0;
        using var reading = new SemaphoreSlim(0);
        Thread[] thieves = [.. Enumerable.Range(0, 2).Select(_ => new Thread(() => Steal().GetAwaiter().GetResult()))];

        async Task Steal()
        {
            byte[] buffer = new byte[1];
            while (await kept.Reader.WaitToReadAsync())
            {
                while (kept.Reader.TryRead(out (Request Request, Stream Body, PipeReader Pipe, byte Tag) one))
                {
                    bool first = true;
                    try
                    {
                        for (int count = 1; count > 0;)
                        {
                            ValueTask<int> read = kind == "stream" ? one.Body.ReadAsync(buffer) : Take(one.Pipe, waits, one.Tag, foreign);
                            if (first && (!waits || !read.IsCompleted))
                            {
                                first = false;
                                reading.Release();
                            }

                            count = await read;
                            if (kind == "stream" && buffer.AsSpan(0, count).ContainsAnyExcept(one.Tag))
                            {
                                foreign.Enqueue($"the reader of request {one.Tag} was given {buffer[0]}");
                            }
                        }
                    }
                    catch (Exception error) when (error is ObjectDisposedException or IOException or InvalidOperationException)
                    {
                        Interlocked.Increment(ref raced);
                        if (first)
                        {
                            reading.Release();
                        }
                    }
                }
            }
        }

        Array.ForEach(thieves, static thread => thread.Start());
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            async (request, response) =>
            {
                byte tag = byte.Parse(request.Path.AsSpan(2), System.Globalization.CultureInfo.InvariantCulture);
                if (request.Path[1] == 'k')
                {
                    await kept.Writer.WriteAsync((request, request.Body, request.BodyReader, tag));
                    await reading.WaitAsync();
                    return;
                }

                byte[] buffer = new byte[64];
                int total = 0;
                for (int count; (count = await request.ReadAsync(buffer)) > 0; total += count)
                {
                    if (buffer.AsSpan(0, count).ContainsAnyExcept(tag))
                    {
                        foreign.Enqueue($"request {tag} was given {buffer[0]}");
                    }
                }

                response.WriteText($"{total}");
            },
            new MillraceOptions { Loops = 1 });
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            for (int i = 0; i < 3_000; i++)
            {
                byte tag = (byte)(1 + (i % 250));
                byte[] body = Body(tag);
                var request = new FastCgiRequest($"/k{tag}", "POST") { Body = body };
                byte[] head = request.Head();
                peer.Send([.. head, .. request.Stdin(body.AsSpan(0, waits ? Size / 2 : Size)), .. waits ? [] : request.EndOfStdin()]);
                Assert.True(peer.Receive().IsWhole);
                tag++;
                var next = new FastCgiRequest($"/n{tag}", "POST") { Body = Body(tag) };
                peer.Send([.. waits ? request.EndOfStdin() : [], .. next.ToBytes()]);
                Assert.Equal($"{Size}", peer.Receive().Text);
            }
        }

        kept.Writer.Complete();
        Assert.All(thieves, static thread => Assert.True(thread.Join(20_000)));
        Assert.Empty(foreign);
        Assert.True(raced > 0 || !waits, "no read outlived its request");    // one that need not wait outlives it only by chance
    }

    // What a reader has shown stays as it was, also when its request has ended meanwhile.
    private static async ValueTask<int> Take(PipeReader pipe, bool waits, byte tag, ConcurrentQueue<string> foreign)
    {
        ReadResult read = await pipe.ReadAsync();
        try
        {
            pipe.AdvanceTo(read.Buffer.Start, waits ? read.Buffer.End : read.Buffer.Start);
        }
        finally
        {
            if (read.Buffer.ToArray().AsSpan().ContainsAnyExcept(tag))
            {
                foreign.Enqueue($"the bytes that the reader of request {tag} was shown have become another's");
            }
        }

        return read.IsCompleted && waits ? 0 : 1;
    }

    private static byte[] Body(byte tag)
    {
        byte[] body = new byte[Size];
        Array.Fill(body, tag);
        return body;
    }
}
