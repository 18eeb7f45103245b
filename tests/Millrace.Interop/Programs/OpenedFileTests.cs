// Files that MapFastCgi sends, below Root or for a script, while others who may write in a folder on the way exchange it, its files and what they are: what is judged is what is sent.
using System.Diagnostics;
using System.IO.Compression;
using System.Runtime.InteropServices;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.ResponseCompression;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Net.Http.Headers;
using Millrace.Connector;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Programs;

public sealed partial class OpenedFileTests : IDisposable
{
    private readonly TemporaryDirectory _directory = new("opened");
    private readonly string _root;

    public OpenedFileTests()
    {
        _root = Path.Combine(_directory.Path, "www");
        Directory.CreateDirectory(Path.Combine(_root, "uploads"));
    }

    public void Dispose() => _directory.Dispose();

    public static TheoryData<Way, bool> Ways => new() { { Way.Root, false }, { Way.Root, true }, { Way.Accel, false }, { Way.Accel, true }, { Way.SendFile, false }, { Way.SendFile, true } };

    // ---- where it lies ----

    // The folder and the link to another one change places as fast as they can.
    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_folder_that_is_exchanged_for_a_link_while_its_file_is_asked_for_leads_nowhere(Way way, bool onMillrace)
    {
        string uploads = Path.Combine(_root, "uploads");
        string secret = Path.Combine(_directory.Path, "secret");
        Directory.CreateDirectory(Path.Combine(uploads, "d"));
        Directory.CreateDirectory(secret);
        await File.WriteAllTextAsync(Path.Combine(uploads, "d/note.txt"), "inside");
        await File.WriteAllTextAsync(Path.Combine(secret, "note.txt"), "secret");
        Directory.CreateSymbolicLink(Path.Combine(uploads, "l"), secret);
        await using ScriptedProgram program = Sending("uploads/d/note.txt");
        await using PhpApp app = await StartAsync(program, onMillrace);
        Dictionary<string, int> found;
        using (new Meanwhile(() => Exchange(Path.Combine(uploads, "d"), Path.Combine(uploads, "l"))))
        {
            found = await AskAsync(app, TargetOf(way, "uploads/d/note.txt"), 4_000, static answer => answer.Text);
        }
        Assert.Equal(["200 inside", way == Way.Root ? "404 " : "502 "], found.Keys.Order(StringComparer.Ordinal));
    }

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_link_is_followed_within_the_folder_and_out_of_it_only_where_links_may_lead_out(Way way, bool onMillrace)
    {
        await File.WriteAllTextAsync(Path.Combine(_directory.Path, "outside.txt"), "outside");
        await File.WriteAllTextAsync(Path.Combine(_root, "inside.txt"), "inside");
        string uploads = Path.Combine(_root, "uploads");
        File.CreateSymbolicLink(Path.Combine(uploads, "out.txt"), Path.Combine(_directory.Path, "outside.txt"));
        File.CreateSymbolicLink(Path.Combine(uploads, "full.txt"), Path.Combine(_root, "inside.txt"));
        File.CreateSymbolicLink(Path.Combine(uploads, "short.txt"), "../inside.txt");
        File.CreateSymbolicLink(Path.Combine(uploads, "round.txt"), "round.txt");
        foreach (bool follow in (bool[])[false, true])
        {
            foreach (var (name, answer) in ((string, string)[])[("full.txt", "200 inside"), ("short.txt", "200 inside"), ("out.txt", follow && way == Way.Root ? "200 outside" : ""), ("round.txt", ""), ("not-there.txt", "")])
            {
                await using ScriptedProgram program = Sending("uploads/" + name);
                await using PhpApp app = await StartAsync(program, onMillrace, options => options.FollowLinks = follow);
                string expected = answer.Length > 0 ? answer : way == Way.Root ? "404 " : "502 ";
                Assert.Equal((name, expected), (name, Assert.Single(await AskAsync(app, TargetOf(way, "uploads/" + name), 1, static its => its.Text)).Key));
            }
        }
    }

    // Who may make a link in one folder has not what lies in another sent as if it were a file like any other.
    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public async Task A_link_shows_neither_the_text_of_a_script_nor_what_is_hidden_and_runs_nothing_that_is(bool onMillrace, bool follows)
    {
        Directory.CreateDirectory(Path.Combine(_root, ".git"));
        string[] closed = ["config.php", ".env.txt", ".git/config.txt"];
        foreach (string name in closed)
        {
            await File.WriteAllTextAsync(Path.Combine(_root, name), "secret");
            File.CreateSymbolicLink(Path.Combine(_root, $"uploads/{Path.GetFileName(name).TrimStart('.')}.txt"), Path.Combine(_root, name));
        }
        await File.WriteAllTextAsync(Path.Combine(_root, ".git/x.php"), "");
        Directory.CreateSymbolicLink(Path.Combine(_root, "open"), Path.Combine(_root, ".git"));
        await using ScriptedProgram program = Sending("note.txt");
        await using PhpApp app = await StartAsync(program, onMillrace, options => options.FollowLinks = follows);
        foreach (string name in closed)
        {
            Assert.Equal((name, "404 "), (name, Assert.Single(await AskAsync(app, $"/uploads/{Path.GetFileName(name).TrimStart('.')}.txt", 1, static answer => answer.Text)).Key));
        }
        Assert.Equal(follows ? "502 " : "404 ", Assert.Single(await AskAsync(app, "/open/x.php", 1, static answer => answer.Text)).Key);      // 502: it runs, and names a file that may not be sent
    }

    // A client that has ended its half waits for its answer (RFC 9112 §9.6), and the request's token has fired for it.
    [Fact]
    public async Task Who_has_ended_his_half_of_the_connection_has_his_file()
    {
        await File.WriteAllTextAsync(Path.Combine(_root, "note.txt"), "whole");
        await using ScriptedProgram program = Sending("note.txt");
        await using PhpApp app = await StartAsync(program, onMillrace: true, before: static its => its.Use(async (context, next) =>
        {
            var ended = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            using (context.RequestAborted.Register(ended.SetResult))
            {
                await ended.Task.WaitAsync(TimeSpan.FromSeconds(20));
            }
            await next(context);
        }));
        using var client = new System.Net.Sockets.Socket(System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Tcp);
        await client.ConnectAsync(app.EndPoint);
        await client.SendAsync("GET /note.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"u8.ToArray());
        using var reader = new StreamReader(new System.Net.Sockets.NetworkStream(client));
        client.Shutdown(System.Net.Sockets.SocketShutdown.Send);
        string answer = await reader.ReadToEndAsync();
        Assert.StartsWith("HTTP/1.1 200 ", answer, StringComparison.Ordinal);
        Assert.EndsWith("\r\n\r\nwhole", answer, StringComparison.Ordinal);
    }

    // A site is deployed so: the next release beside the last one, and the link is led there.
    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_folder_that_is_a_link_lies_where_that_leads_when_somebody_asks(Way way, bool onMillrace)
    {
        string link = Path.Combine(_directory.Path, "current");
        foreach (string release in (string[])["first", "second"])
        {
            string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, release)).FullName;
            await File.WriteAllTextAsync(Path.Combine(folder, "note.txt"), release);
            await File.WriteAllTextAsync(Path.Combine(folder, "accel.php"), "");
            await File.WriteAllTextAsync(Path.Combine(folder, "sendfile.php"), "");
        }
        Directory.CreateSymbolicLink(link, "first");
        await using ScriptedProgram program = Sending("note.txt");
        await using PhpApp app = await StartAsync(program, onMillrace, options => (options.Root, options.SendFileRoots["/protected/"]) = (link, link), Path.Combine(link, "note.txt"));
        Assert.Equal("200 first", Assert.Single(await AskAsync(app, TargetOf(way, "note.txt"), 3, static answer => answer.Text)).Key);

        Directory.CreateSymbolicLink(link + ".next", "second");
        await RunAsync("mv", "-T", link + ".next", link);
        Assert.Equal("200 second", Assert.Single(await AskAsync(app, TargetOf(way, "note.txt"), 3, static answer => answer.Text)).Key);

        File.CreateSymbolicLink(Path.Combine(_directory.Path, "second/old.txt"), Path.Combine(_directory.Path, "first/note.txt"));
        Assert.Equal("404 ", Assert.Single(await AskAsync(app, "/old.txt", 3, static answer => answer.Text)).Key);
    }

    // ---- what it is ----

    // Who opens a pipe waits for somebody who writes to it, and what a device does when it is opened is its own.
    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_pipe_is_not_there_and_nobody_waits_for_it(Way way, bool onMillrace)
    {
        await RunAsync("mkfifo", Path.Combine(_root, "pipe.txt"));
        await using ScriptedProgram program = Sending("pipe.txt");
        await using PhpApp app = await StartAsync(program, onMillrace);
        await RunAsync("mkfifo", Path.Combine(_root, "pipe.php"));
        Assert.Equal("404 ", Assert.Single(await AskAsync(app, "/pipe.php", 1, static answer => answer.Text)).Key);     // a program would open it as a script, and wait
        Dictionary<string, int> found = await AskAsync(app, TargetOf(way, "pipe.txt"), 50, static answer => answer.Text);
        Assert.Equal((way == Way.Root ? "404 " : "502 ", 50), (Assert.Single(found).Key, found.Values.Sum()));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_device_is_not_there_wherever_links_may_lead(bool onMillrace)
    {
        File.CreateSymbolicLink(Path.Combine(_root, "zero.txt"), "/dev/zero");
        await using ScriptedProgram program = Sending("zero.txt");
        await using PhpApp app = await StartAsync(program, onMillrace, static options => options.FollowLinks = true);
        Assert.Equal("404 ", Assert.Single(await AskAsync(app, "/zero.txt", 10, static answer => answer.Text)).Key);
    }

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task What_may_not_be_read_is_403_and_the_log_says_why(Way way, bool onMillrace)
    {
        string closed = Closed();
        await using ScriptedProgram program = Sending(Path.GetFileName(closed));
        await using PhpApp app = await StartAsync(program, onMillrace, options =>
        {
            options.FollowLinks = true;
            options.SendFileRoots["/protected/"] = Path.GetDirectoryName(closed)!;
        }, way == Way.SendFile ? closed : null);
        File.CreateSymbolicLink(Path.Combine(_root, "closed.txt"), closed);
        string target = way == Way.Accel ? TargetOf(way, Path.GetFileName(closed)) : TargetOf(way, "closed.txt");
        Assert.Equal("403 ", Assert.Single(await AskAsync(app, target, 3, static answer => answer.Text)).Key);
        Assert.Equal(3, app.Said.All.Count);
        Assert.All(app.Said.All, static line => Assert.Contains("EACCES", line, StringComparison.Ordinal));
    }

    // Root may read any file but those that nobody may, such as what the kernel takes and does not tell.
    private string Closed()
    {
        if (Environment.IsPrivilegedProcess)
        {
            return "/sys/bus/platform/drivers_probe";
        }
        string closed = Path.Combine(_directory.Path, "closed");
        File.WriteAllText(closed, "closed");
        if (!OperatingSystem.IsWindows())
        {
            File.SetUnixFileMode(closed, UnixFileMode.None);
        }
        return closed;
    }

    // tmpfs keeps times of which .NET has no word.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_file_of_a_time_beyond_all_calendars_is_sent(bool onMillrace)
    {
        string folder = Directory.CreateDirectory($"/dev/shm/millrace-{Guid.NewGuid():N}").FullName;
        try
        {
            string file = Path.Combine(folder, "note.txt");
            await File.WriteAllTextAsync(file, "of no time");
            await RunAsync("touch", "-d", "@99999999999999", file);
            await using ScriptedProgram program = Sending("note.txt");
            await using PhpApp app = await StartAsync(program, onMillrace, options => options.Root = folder);
            Assert.Equal("200 of no time", Assert.Single(await AskAsync(app, "/note.txt", 3, static answer => answer.Text)).Key);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    // ---- what it becomes ----

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_file_that_is_replaced_while_it_is_asked_for_is_the_old_or_the_new(Way way, bool onMillrace)
    {
        string file = Path.Combine(_root, "note.txt");
        string next = Path.Combine(_root, "next");
        string[] texts = [new('a', 20_000), new('b', 40_000)];
        await File.WriteAllTextAsync(file, texts[0]);
        await using ScriptedProgram program = Sending("note.txt");
        await using PhpApp app = await StartAsync(program, onMillrace);
        Dictionary<string, int> found;
        int turn = 0;
        using (new Meanwhile(() =>
        {
            File.WriteAllText(next, texts[++turn % 2]);
            File.Move(next, file, overwrite: true);
        }))
        {
            found = await AskAsync(app, TargetOf(way, "note.txt"), 4_000, answer =>
                $"{answer.Header("Content-Length")} {answer.Header("ETag")?.Split('-')[^1]} {answer.Header("Content-Type")} {(texts.Contains(answer.Text) ? answer.Text[0] : $"{answer.Text.Length} others")}");
        }
        Assert.Equal(["200 20000 4e20\" text/plain a", "200 40000 9c40\" text/plain b"], found.Keys.Order(StringComparer.Ordinal));
    }

    // A log, or what is being uploaded.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_file_that_grows_is_sent_as_long_as_it_was(bool onMillrace)
    {
        string file = Path.Combine(_root, "log.txt");
        await File.WriteAllTextAsync(file, new string('x', 500_000));
        await using ScriptedProgram program = Sending("log.txt");
        await using PhpApp app = await StartAsync(program, onMillrace);
        await using var log = new FileStream(file, FileMode.Append, FileAccess.Write, FileShare.Read, bufferSize: 0);
        Dictionary<string, int> found;
        using (new Meanwhile(() => log.WriteByte((byte)'x')))
        {
            found = await AskAsync(app, "/log.txt", 300, static answer => answer.Header("Content-Length") == $"{answer.Body.Length}" ? "whole" : $"{answer.Body.Length} of {answer.Header("Content-Length")}");
        }
        Assert.Equal("200 whole", Assert.Single(found).Key);
    }

    // ---- how it is sent ----

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Ranges_and_conditions_are_those_of_ASP_NET_Core_and_no_file_stays_open(bool onMillrace)
    {
        await using ScriptedProgram program = Sending("19.txt");
        await using PhpApp app = await StartAsync(program, onMillrace, before: its => its.Map("/oracle/{name}", SendPlainlyAsync));
        foreach (int length in (int[])[0, 19, 20_000, 300_000])
        {
            string name = $"{length}.txt";
            byte[] bytes = new byte[length];
            new Random(length).NextBytes(bytes);
            await File.WriteAllBytesAsync(Path.Combine(_root, name), bytes);
            WireResponse whole = await PhpSite.AskAsync(app.EndPoint, "GET", "/" + name);
            Assert.Equal((200, true), (whole.Status, bytes.AsSpan().SequenceEqual(whole.Body)));
            string tag = whole.Header("ETag")!;
            string time = whole.Header("Last-Modified")!;
            const string Past = "Sat, 01 Jan 2000 00:00:00 GMT";
            string[][] asked =
            [
                [], ["Range: bytes=0-0"], ["Range: bytes=-7"], ["Range: bytes=5-"], ["Range: bytes=17000-18999"], ["Range: bytes=100000-299999"], ["Range: bytes=999999-"], ["Range: bytes=0-1,4-5"], ["Range: lines=1-2"],
                ["If-None-Match: " + tag], ["If-None-Match: *"], ["If-None-Match: \"other\""], ["If-Match: " + tag], ["If-Match: \"other\""], ["If-Modified-Since: " + time], ["If-Modified-Since: " + Past],
                ["If-Unmodified-Since: " + Past], ["If-Range: " + tag, "Range: bytes=3-9"], ["If-Range: \"other\"", "Range: bytes=3-9"], ["If-Range: " + time, "Range: bytes=3-9"], ["If-Range: " + Past, "Range: bytes=3-9"],
            ];
            foreach (string[] headers in asked)
            {
                foreach (string method in (string[])["GET", "HEAD"])
                {
                    WireResponse expected = await PhpSite.AskAsync(app.EndPoint, method, "/oracle/" + name, null, headers);
                    WireResponse found = await PhpSite.AskAsync(app.EndPoint, method, "/" + name, null, headers);
                    Assert.Equal((method, name, string.Join(", ", headers), Told(expected)), (method, name, string.Join(", ", headers), Told(found)));
                    Assert.True(expected.Body.AsSpan().SequenceEqual(found.Body), $"{method} {name} {string.Join(", ", headers)}");
                }
            }
        }
        await UntilNothingIsOpenAsync();
    }

    private static string Told(WireResponse answer) => string.Join('\n', answer.Head.Headers.Where(static field => field.Key != "Date").Select(static field => $"{field.Key}: {field.Value}").Order(StringComparer.Ordinal).Prepend($"{answer.Status}"));

    private Task SendPlainlyAsync(HttpContext context)
    {
        var file = new FileInfo(Path.Combine(_root, (string)context.Request.RouteValues["name"]!));
        DateTimeOffset changed = file.LastWriteTimeUtc;
        var tag = new EntityTagHeaderValue(FormattableString.Invariant($"\"{changed.ToUnixTimeMilliseconds():x}-{file.Length:x}\""));
        return Results.File(file.FullName, "text/plain", lastModified: changed, entityTag: tag, enableRangeProcessing: true).ExecuteAsync(context);
    }

    private async Task UntilNothingIsOpenAsync()
    {
        var watch = Stopwatch.StartNew();
        while (Directory.EnumerateFiles("/proc/self/fd").Any(IsOurs))
        {
            Assert.True(watch.Elapsed < TimeSpan.FromSeconds(20), "files are open yet");
            await Task.Delay(10);
        }

        bool IsOurs(string descriptor)
        {
            try
            {
                return new FileInfo(descriptor).LinkTarget?.StartsWith(_root, StringComparison.Ordinal) == true;
            }
            catch (IOException)
            {
                return false;       // closed meanwhile
            }
        }
    }

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task Middleware_that_puts_another_body_before_the_servers_has_all_of_it(Way way, bool onMillrace)
    {
        string text = string.Concat(Enumerable.Range(0, 20_000).Select(static number => $"{number} "));
        await File.WriteAllTextAsync(Path.Combine(_root, "long.txt"), text);
        await using ScriptedProgram program = Sending("long.txt");
        await using PhpApp app = await StartAsync(
            program,
            onMillrace,
            build: static builder => builder.Services.AddResponseCompression(static options => options.Providers.Add<GzipCompressionProvider>()),
            before: static its => its.UseResponseCompression());
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", TargetOf(way, "long.txt"), null, "Accept-Encoding: gzip");
        Assert.Equal((200, "gzip"), (found.Status, found.Header("Content-Encoding")));
        using var reader = new StreamReader(new GZipStream(new MemoryStream(found.Body), CompressionMode.Decompress));
        Assert.Equal(text, await reader.ReadToEndAsync());
        WireResponse plain = await PhpSite.AskAsync(app.EndPoint, "GET", TargetOf(way, "long.txt"));
        Assert.Equal((200, text), (plain.Status, plain.Text));
    }

    // ---- with what ----

    /// <summary>How it comes that a file is sent.</summary>
    public enum Way
    {
        /// <summary>A visitor asks for it.</summary>
        Root,

        /// <summary>A script says X-Accel-Redirect.</summary>
        Accel,

        /// <summary>A script says X-Sendfile.</summary>
        SendFile,
    }

    private static string TargetOf(Way way, string name) => way switch
    {
        Way.Root => "/" + name,
        Way.Accel => "/accel.php",
        _ => "/sendfile.php",
    };

    // Its answer depends on which of two scripts is asked for.
    private ScriptedProgram Sending(string name) => new(async talk =>
    {
        string asked = "";
        while (await talk.ReadAsync() is var (type, content) && (type != 4 || content.Length > 0))
        {
            asked += System.Text.Encoding.Latin1.GetString(content);
        }
        string field = asked.Contains("/accel.php", StringComparison.Ordinal) ? $"X-Accel-Redirect: /protected/{name}" : $"X-Sendfile: {_sent ?? Path.Combine(_root, name)}";
        await talk.PrintAsync(field + "\r\n\r\n");
        await talk.EndAsync();
    });

    private string? _sent;

    private Task<PhpApp> StartAsync(
        ScriptedProgram program, bool onMillrace, Action<FastCgiProgramOptions>? configure = null, string? sent = null, Action<WebApplicationBuilder>? build = null, Action<WebApplication>? before = null)
    {
        _sent = sent;
        File.WriteAllText(Path.Combine(_root, "accel.php"), "");
        File.WriteAllText(Path.Combine(_root, "sendfile.php"), "");
        return PhpApp.StartAsync(
            program.Address,
            onMillrace,
            "/{**path}",
            options =>
            {
                options.Root = _root;
                options.Fallback = null;
                options.SendFileRoots["/protected/"] = _root;
                configure?.Invoke(options);
            },
            build: build,
            before: before);
    }

    /// <summary>Asks again and again over one connection, or over the next where that has ended.</summary>
    /// <returns>Each answer, and how often it was that.</returns>
    private static async Task<Dictionary<string, int>> AskAsync(PhpApp app, string target, int times, Func<WireResponse, string> what)
    {
        var found = new Dictionary<string, int>();
        WireClient? client = null;
        for (int i = 0; i < times; i++)
        {
            string answer;
            try
            {
                client ??= await WireClient.ConnectAsync(app.EndPoint);
                WireResponse its = await client.GetAsync(target);
                answer = $"{its.Status} {what(its)}";
                if (its.Header("Connection") == "close")
                {
                    client.Dispose();
                    client = null;
                }
            }
            catch (CutResponseException)
            {
                answer = "cut";
                client!.Dispose();
                client = null;
            }
            found[answer] = found.GetValueOrDefault(answer) + 1;
        }
        client?.Dispose();
        return found;
    }

    private static async Task RunAsync(string program, params string[] arguments)
    {
        using Process run = Process.Start(program, arguments);
        await run.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.Equal(0, run.ExitCode);
    }

    private static void Exchange(string one, string other)
    {
        if (Native.RenameAt(-100, one, -100, other, Native.RENAME_EXCHANGE) != 0)
        {
            throw new IOException(Marshal.GetPInvokeErrorMessage(Marshal.GetLastPInvokeError()));
        }
    }

    /// <summary>Does something over and over on a thread of its own, until it is disposed of.</summary>
    private sealed class Meanwhile : IDisposable
    {
        private readonly Thread _thread;
        private volatile bool _isOver;
        private Exception? _failure;

        public Meanwhile(Action what)
        {
            _thread = new Thread(() =>
            {
                try
                {
                    while (!_isOver)
                    {
                        what();
                    }
                }
                catch (Exception error)
                {
                    _failure = error;
                }
            });
            _thread.Start();
        }

        public void Dispose()
        {
            _isOver = true;
            _thread.Join();
            Assert.Null(_failure);
        }
    }

    private static partial class Native
    {
        public const uint RENAME_EXCHANGE = 2;

        [LibraryImport("libc", EntryPoint = "renameat2", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
        public static partial int RenameAt(int folder, string one, int otherFolder, string other, uint flags);
    }
}
