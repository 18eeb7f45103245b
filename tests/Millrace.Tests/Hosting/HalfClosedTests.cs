// Clients that finish sending and go on reading: what the framework writes for them comes with the token of the request, which has fired, and is whole
// all the same. docs/http.md, RFC 9112 §9.6.

using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class HalfClosedTests
{
    private const int Size = 8 * 1024 * 1024;

    private static readonly byte[] s_head = Encoding.ASCII.GetBytes("\r\n\r\n");

    private static void Map(WebApplication app, string file, Task go)
    {
        app.MapGet("/file", async context =>
        {
            await go;
            context.Response.ContentLength = Size;
            await context.Response.SendFileAsync(file);
        });
        app.MapGet("/result", async () =>
        {
            await go;
            return Results.File(file, "application/octet-stream");
        });
        app.MapGet("/write", async context =>
        {
            await go;
            await context.Response.Body.WriteAsync(File.ReadAllBytes(file), context.RequestAborted);
        });
        app.MapGet("/writer", async context =>
        {
            await go;
            await context.Response.BodyWriter.WriteAsync(File.ReadAllBytes(file), context.RequestAborted);
        });
        app.MapGet("/json", async context =>
        {
            await go;
            await context.Response.WriteAsJsonAsync(new string('j', Size - 2));
        });
    }

    public static TheoryData<string, bool, bool> Ways
    {
        get
        {
            var all = new TheoryData<string, bool, bool>();
            foreach (string path in (string[])["/file", "/result", "/write", "/writer", "/json"])
            {
                foreach (bool isTcp in (bool[])[true, false])
                {
                    all.Add(path, isTcp, true);
                    all.Add(path, isTcp, false);
                }
            }

            return all;
        }
    }

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_large_answer_is_whole_RFC9112_9_6(string path, bool isTcp, bool finishesBefore)
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("large");
        await File.WriteAllBytesAsync(file, new byte[Size], TestContext.Current.CancellationToken);
        var go = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HostedApp app = await HostedApp.StartAsync(
            app => Map(app, file, go.Task), address: isTcp ? "http://127.0.0.1:0" : $"http://unix:{folder.PathOf("app.sock")}");
        using Socket client = isTcp ? new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) : new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.ReceiveTimeout = 20_000;
        client.Connect(isTcp ? new IPEndPoint(IPAddress.Loopback, new Uri(app.Address).Port) : new UnixDomainSocketEndPoint(folder.PathOf("app.sock")));
        client.Send(Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if (finishesBefore)
        {
            client.Shutdown(SocketShutdown.Send);
        }

        await Task.Delay(20, TestContext.Current.CancellationToken);
        go.SetResult();
        byte[] part = new byte[64 * 1024];
        var answer = new MemoryStream();
        int first = client.Receive(part);
        answer.Write(part, 0, first);
        if (!finishesBefore)
        {
            await Task.Delay(20, TestContext.Current.CancellationToken);     // the rest waits for room
            client.Shutdown(SocketShutdown.Send);
            await Task.Delay(20, TestContext.Current.CancellationToken);
        }

        for (int count; (count = client.Receive(part)) > 0;)
        {
            answer.Write(part, 0, count);
        }

        Assert.Equal(Size, LengthOfBody(answer.GetBuffer().AsSpan(0, (int)answer.Length)));
    }

    private static int LengthOfBody(ReadOnlySpan<byte> answer)
    {
        int end = answer.IndexOf(s_head);
        string head = Encoding.ASCII.GetString(answer[..end]);
        ReadOnlySpan<byte> rest = answer[(end + s_head.Length)..];
        if (!head.Contains("chunked", StringComparison.Ordinal))
        {
            return rest.Length;
        }

        int total = 0;
        while (true)
        {
            int line = rest.IndexOf("\r\n"u8);
            int size = Convert.ToInt32(Encoding.ASCII.GetString(rest[..line]), 16);
            if (size == 0)
            {
                return total;
            }

            total += size;
            rest = rest[(line + 2 + size + 2)..];
        }
    }
}
