// The end-to-end list: request and response bodies of every size, in every framing, and files.
using Millrace.Interop.Client;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    protected const int OneMebibyte = 1024 * 1024;

    /// <summary>Sizes at which buffers and records end: around 8, 16, 32, 46 and 64 KiB and their multiples.</summary>
    public static TheoryData<int> Sizes
    {
        get
        {
            var sizes = new TheoryData<int> { 0, 1, 2, 100, 46_000 };
            int[] borders = [8, 16, 32, 46, 64, 92, 96, 128, 192, 256, 1024];
            foreach (int border in borders)
            {
                sizes.AddRange((border * 1024) - 1, border * 1024, (border * 1024) + 1);
            }

            // A record's content ends at 65,535 bytes; padded to eight it ends at 65,528.
            sizes.AddRange(65_527, 65_528, 65_529, 65_534, 131_069, 131_070, 16 * OneMebibyte);
            return sizes;
        }
    }

    [Theory]
    [MemberData(nameof(Sizes))]
    public virtual async Task Request_body_of_known_length_arrives_whole(int size)
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.SendAsync("POST", "/hash", DeterministicBytes.Create(size));
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
    }

    [Theory]
    [MemberData(nameof(Sizes))]
    public virtual async Task Request_body_of_known_length_arrives_whole_when_streamed(int size)
    {
        using WireClient client = await ConnectStreamingAsync();
        WireResponse response = await client.SendAsync("POST", "/hash", DeterministicBytes.Create(size));
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
    }

    [Theory]
    [MemberData(nameof(Sizes))]
    public virtual async Task Chunked_request_body_arrives_whole_when_streamed(int size)
    {
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", "/hash", "Transfer-Encoding: chunked");
        await WriteChunksAsync(client, size);
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(65_536)]
    [InlineData(OneMebibyte)]
    public virtual async Task Chunked_request_body_arrives_whole_when_collected(int size)
    {
        using WireClient client = await ConnectAsync();
        await client.WriteHeadAsync("POST", "/hash", "Transfer-Encoding: chunked");
        await WriteChunksAsync(client, size);
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(46_000)]
    [InlineData(OneMebibyte + 1)]
    public virtual async Task Announced_length_is_known_and_missing_length_is_unknown(int size)
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        WireResponse known = await client.SendAsync("POST", $"/size?tag={tag}", DeterministicBytes.Create(size));
        Assert.Equal($"{size} announced {size}", known.Text);
        await App.Signals.WaitAsync($"{tag} started");

        // A front end that has the whole body by the time it asks may announce its length: the body comes later here.
        await client.WriteHeadAsync("POST", $"/size?tag={tag}", "Transfer-Encoding: chunked");
        await App.Signals.WaitAsync($"{tag} started");
        await WriteChunksAsync(client, size);
        WireResponse unknown = await client.ReadResponseAsync();
        Assert.Equal($"{size} announced none", unknown.Text);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(65_536)]
    [InlineData(16 * OneMebibyte)]
    public virtual async Task Body_and_its_type_go_both_ways(int size)
    {
        byte[] body = DeterministicBytes.Create(size);
        using WireClient collected = await ConnectAsync();
        using WireClient streamed = await ConnectStreamingAsync();
        foreach (WireClient client in new[] { collected, streamed })
        {
            AssertEchoed(body, await client.SendAsync("POST", "/echo", body, EchoType));
        }
    }

    [Theory]
    [InlineData(1)]
    [InlineData(100_000)]
    [InlineData(4 * OneMebibyte)]
    public virtual async Task Body_that_the_handler_never_reads_does_no_harm(int size)
    {
        for (int i = 0; i < 3; i++)
        {
            using WireClient client = await ConnectAsync();
            WireResponse response = await client.SendAsync("POST", "/ignore", DeterministicBytes.Create(size));
            Assert.Equal(200, response.Status);
            Assert.Equal("ignored", response.Text);

            // A front end may refuse to read the rest of a body that is answered already, if it says so.
            if (!response.Head.ClosesConnection)
            {
                Assert.Equal("Hello, World!", (await client.GetAsync("/hello")).Text);
            }
        }

        await AssertStillServesAsync();
    }

    [Theory]
    [MemberData(nameof(Sizes))]
    public virtual async Task Response_body_arrives_whole(int size)
    {
        using WireClient client = await ConnectAsync();
        foreach (string length in new[] { "known", "unknown" })
        {
            foreach (string write in new[] { "whole", "blocks", "pipe" })
            {
                await AssertDownloadAsync(client, size, length, write);
            }
        }
    }

    [Theory]
    [InlineData("known", "whole")]
    [InlineData("known", "blocks")]
    [InlineData("unknown", "blocks")]
    [InlineData("unknown", "pipe")]
    public virtual async Task Download_of_64_MB_arrives_whole(string length, string write)
    {
        using WireClient collected = await ConnectAsync();
        await AssertDownloadAsync(collected, 64 * OneMebibyte, length, write);
        using WireClient streamed = await ConnectStreamingAsync();
        await AssertDownloadAsync(streamed, 64 * OneMebibyte, length, write);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(65_536)]
    [InlineData(8_388_611)]
    public virtual async Task File_arrives_whole(int size)
    {
        using WireClient client = await ConnectAsync();
        await client.WriteHeadAsync("GET", $"/file?bytes={size}");
        WireHead head = await client.ReadHeadAsync();
        Assert.Equal(200, head.Status);
        Assert.Equal(size, head.ContentLength);
        (long length, string hash) = await client.ReadBodyHashAsync();
        Assert.Equal(size, length);
        Assert.Equal(DeterministicBytes.Hash(size), hash);

        WireResponse onlyHead = await client.SendAsync("HEAD", $"/file?bytes={size}");
        Assert.Equal(200, onlyHead.Status);
        Assert.Equal(size, onlyHead.Head.ContentLength);

        Assert.Equal("Hello, World!", (await client.GetAsync("/hello")).Text);
    }

    [Fact]
    public virtual async Task Part_of_a_file_arrives_RFC9110_14()
    {
        WireResponse response = await GetAsync("/file?bytes=8388611", "Range: bytes=5000000-5099999");
        Assert.Equal(206, response.Status);
        Assert.Equal("bytes 5000000-5099999/8388611", response.Header("Content-Range"));
        byte[] expected = new byte[100_000];
        DeterministicBytes.Fill(expected, 5_000_000);
        Assert.Equal(expected, response.Body);
    }

    protected static async Task AssertDownloadAsync(WireClient client, int size, string length, string write)
    {
        await client.WriteHeadAsync("GET", $"/big?bytes={size}&length={length}&write={write}");
        WireHead head = await client.ReadHeadAsync();
        (long received, string hash) = await client.ReadBodyHashAsync();
        Assert.Equal(200, head.Status);
        Assert.Equal(size, received);
        Assert.Equal(DeterministicBytes.Hash(size), hash);
        if (length == "known")
        {
            Assert.Equal(size, head.ContentLength);
        }
    }

    // Chunks of uneven sizes, so that they do not line up with anybody's buffers.
    protected static async Task WriteChunksAsync(WireClient client, int size)
    {
        byte[] body = DeterministicBytes.Create(size);
        int chunkSize = 1;
        for (int offset = 0; offset < size;)
        {
            int count = Math.Min(chunkSize, size - offset);
            await client.WriteChunkAsync(body.AsMemory(offset, count));
            offset += count;
            chunkSize = Math.Min((chunkSize * 3) + 1, 200_000);
        }

        await client.WriteChunkAsync(ReadOnlyMemory<byte>.Empty);
    }
}
