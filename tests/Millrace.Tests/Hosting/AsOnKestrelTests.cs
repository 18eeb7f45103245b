// Small things that an application may do with a request and its response: what comes of them is as on Kestrel, which is asked beside.

using System.Buffers;
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class AsOnKestrelTests
{
    private const string Upload = "Content-Length: 5\r\n";
    private const string Expecting = "Content-Length: 5\r\nExpect: 100-continue\r\n";

    private static readonly (string Name, Func<HttpContext, Task> Do)[] s_streamUses =
    [
        ("read time-out of the request", static context => Get(context.Request.Body.ReadTimeout)),
        ("write time-out of the request", static context => Get(context.Request.Body.WriteTimeout)),
        ("read time-out of the response", static context => Get(context.Response.Body.ReadTimeout)),
        ("write time-out of the response", static context => Get(context.Response.Body.WriteTimeout)),
        ("a read time-out for the request", static context => Get(context.Request.Body.ReadTimeout = 5)),
        ("a write time-out for the response", static context => Get(context.Response.Body.WriteTimeout = 5)),
        ("length of the request", static context => Get(context.Request.Body.Length)),
        ("position of the response", static context => Get(context.Response.Body.Position)),
        ("seeking", static context => Get(context.Request.Body.Seek(0, SeekOrigin.Begin))),
        ("writing to the request", static context => context.Request.Body.WriteAsync(new byte[1]).AsTask()),
        ("flushing the request", static context => context.Request.Body.FlushAsync()),
        ("reading from the response", static context => context.Response.Body.ReadAsync(new byte[1]).AsTask()),
    ];

    // A member of a stream is asked for what it throws.
    private static Task<long> Get(long value) => Task.FromResult(value);

    private static async Task UseStreams(HttpContext context, Action<string> note)
    {
        foreach ((string name, Func<HttpContext, Task> use) in s_streamUses)
        {
            note($"{name}: {(await Record.ExceptionAsync(() => use(context)))?.GetType().Name ?? "nothing"}");
        }
    }

    [Fact]
    public Task What_a_stream_cannot_do_is_refused_with_the_same_exception() => Same("", UseStreams);

    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    public Task Nothing_of_a_file_begins_no_response(long count) => Same("", async (context, note) =>
    {
        context.Response.ContentLength = count;
        await context.Response.SendFileAsync(typeof(AsOnKestrelTests).Assembly.Location, 5, count, context.RequestAborted);
        note($"{context.Response.HasStarted}");
        note($"{Record.Exception(() => context.Response.StatusCode = 201)?.GetType().Name}");
    });

    [Theory]
    [InlineData(5, 0L)]
    [InlineData(5, null)]
    [InlineData(100_000, 0L)]
    [InlineData(100_000, null)]
    public Task Nothing_of_a_file_begins_no_response_behind_what_is_not_flushed(int length, long? count) => Same("", async (context, note) =>
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("empty");
        await File.WriteAllTextAsync(file, "");
        context.Response.ContentLength = length;
        context.Response.BodyWriter.Write(new byte[length]);
        await context.Response.SendFileAsync(file, 0, count, context.RequestAborted);
        note($"{context.Response.HasStarted}");
        note($"{Record.Exception(() => context.Response.StatusCode = 201)?.GetType().Name}");
    });

    // Of the response the stream is replaced, and what sends files; what writes as the writer does goes past it.
    [Theory]
    [InlineData("stream")]
    [InlineData("file")]
    [InlineData("part of a file")]
    [InlineData("text")]
    [InlineData("writer")]
    public Task A_body_that_is_set_in_IHttpResponseFeature_has_what_it_has(string written) => Same("", async (context, note) =>
    {
        IHttpResponseFeature feature = context.Features.GetRequiredFeature<IHttpResponseFeature>();
        HttpResponse response = context.Response;
        string file = typeof(AsOnKestrelTests).Assembly.Location;
        using var other = new MemoryStream();
#pragma warning disable CS0618 // what it is about
        Stream own = feature.Body;
        feature.Body = other;
        note($"{ReferenceEquals(other, feature.Body)} {ReferenceEquals(other, response.Body)}");
        await (written switch
        {
            "stream" => response.Body.WriteAsync("hello"u8.ToArray()).AsTask(),
            "file" => response.SendFileAsync(file),
            "part of a file" => response.SendFileAsync(file, 7, 5),
            "text" => response.WriteAsync("hello"),
            _ => response.BodyWriter.WriteAsync("hello"u8.ToArray()).AsTask(),
        });
        note($"{other.Length} {response.HasStarted}");
        feature.Body = own;
#pragma warning restore CS0618
        note($"{ReferenceEquals(own, response.Body)}");
        await response.Body.WriteAsync("rest"u8.ToArray());
        note($"{other.Length} {response.HasStarted}");
    });

    [Theory]
    [InlineData(null, 200)]
    [InlineData("", 200)]
    [InlineData("", 799)]
    [InlineData("Quite", 200)]
    public Task An_empty_reason_phrase_is_the_usual_one_RFC9112_4(string? reason, int status) => Same("", (context, _) =>
    {
        context.Response.StatusCode = status;
        context.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = reason;
        return Task.CompletedTask;
    });

    [Fact]
    public Task A_body_that_is_read_after_Abort_says_who_aborted() => Same(Upload, static async (context, note) =>
    {
        context.Abort();
        Exception? stream = await Record.ExceptionAsync(() => context.Request.Body.ReadAsync(new byte[5]).AsTask());
        note($"{stream?.GetType().Name}: {stream?.Message}");
        Exception? reader = await Record.ExceptionAsync(() => context.Request.BodyReader.ReadAsync().AsTask());
        note($"{reader?.GetType().Name}: {reader?.Message}");
    });

    [Fact]
    public Task A_read_that_waits_when_the_request_is_aborted_is_cancelled() => Same(Upload, static async (context, note) =>
    {
        Task<int> read = context.Request.Body.ReadAsync(new byte[5]).AsTask();
        context.Abort();
        note($"cancelled: {await Record.ExceptionAsync(() => read) is OperationCanceledException}");
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public Task A_read_that_is_cancelled_before_it_begins_asks_the_client_for_nothing_RFC9110_10_1_1(bool tries) => Same(Expecting, async (context, note) =>
    {
        context.Request.BodyReader.CancelPendingRead();
        System.IO.Pipelines.ReadResult result;
        if (tries)
        {
            Assert.True(context.Request.BodyReader.TryRead(out result));
        }
        else
        {
            result = await context.Request.BodyReader.ReadAsync();
        }

        note($"cancelled: {result.IsCanceled}");
        context.Request.BodyReader.AdvanceTo(result.Buffer.Start);
    });

    [Fact]
    public Task The_read_behind_a_cancelled_one_asks_the_client_RFC9110_10_1_1() => Same(Expecting, static async (context, note) =>
    {
        context.Request.BodyReader.CancelPendingRead();
        System.IO.Pipelines.ReadResult result = await context.Request.BodyReader.ReadAsync();
        context.Request.BodyReader.AdvanceTo(result.Buffer.Start);
        byte[] body = new byte[5];
        await context.Request.Body.ReadExactlyAsync(body);
        note(Encoding.ASCII.GetString(body));
    });

    private static async Task Same(string fields, Func<HttpContext, Action<string>, Task> handler)
    {
        string[] expected = await AskAsync(kestrel: true, fields, handler);
        Assert.Equal(expected, await AskAsync(kestrel: false, fields, handler));
    }

    // What the handler noted, and at the end the head of the answer, less what each server says of itself. A client that was not asked for its body
    // may send it, or not: here the connection ends, on Kestrel the next request is read from where the body may be.
    private static async Task<string[]> AskAsync(bool kestrel, string fields, Func<HttpContext, Action<string>, Task> handler)
    {
        var notes = new ConcurrentQueue<string>();
        var ended = new TaskCompletionSource();
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        if (!kestrel)
        {
            builder.WebHost.UseMillrace();
        }

        await using WebApplication app = builder.Build();
        app.Run(async context =>
        {
            Exception? failure = await Record.ExceptionAsync(() => handler(context, notes.Enqueue));
            notes.Enqueue($"failed: {failure}");
            ended.SetResult();
        });
        app.Urls.Add("http://127.0.0.1:0");
        await app.StartAsync();
        string head = await ConverseAsync(new Uri(app.Urls.First()).Port, fields);
        await ended.Task.WaitAsync(TimeSpan.FromSeconds(30));
        return [.. notes, .. head.Split("\r\n").Where(static line => !Regex.IsMatch(line, "^(Date|Server|Connection):"))];
    }

    // Sends the body when it is asked for, and reads until the final head, or the end.
    private static async Task<string> ConverseAsync(int port, string fields)
    {
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(IPAddress.Loopback, port);
        await socket.SendAsync(Encoding.ASCII.GetBytes($"{(fields.Length == 0 ? "GET" : "POST")} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        var text = new StringBuilder();
        byte[] buffer = new byte[4_096];
        bool wasAsked = false;
        try
        {
            while (!text.ToString().Replace("HTTP/1.1 100 Continue\r\n\r\n", "", StringComparison.Ordinal).Contains("\r\n\r\n", StringComparison.Ordinal))
            {
                using var patience = new CancellationTokenSource(TimeSpan.FromSeconds(30));
                int count = await socket.ReceiveAsync(buffer, patience.Token);
                if (count == 0)
                {
                    break;
                }

                text.Append(Encoding.ASCII.GetString(buffer, 0, count));
                if (!wasAsked && text.ToString().Contains("100 Continue", StringComparison.Ordinal))
                {
                    wasAsked = true;
                    await socket.SendAsync("12345"u8.ToArray());
                }
            }
        }
        catch (SocketException)
        {
            text.Append("reset");
        }

        string all = text.ToString();
        int end = all.IndexOf("\r\n\r\n", Math.Max(0, all.LastIndexOf("HTTP/1.1 ", StringComparison.Ordinal)), StringComparison.Ordinal);
        return end < 0 ? all : all[..end];      // some of the body may have come with it
    }
}
