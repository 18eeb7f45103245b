// Whatever an application keeps of a request that has ended answers ObjectDisposedException, or what it was, and neither shows
// nor touches another request: also while the objects behind it begin to serve that one, on another thread.

using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Primitives;
using Millrace.Tests.Allocation;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Kept;

[Collection(AloneCollection.Name)]
public sealed class KeptObjectsTests(ITestOutputHelper output) : IDisposable
{
    private const int Others = 100_000;
    private const int Clients = 4;
    private const int Kept = 12;

    // The server's own classes that a request leads to, and those of their members that say nothing of it and do nothing to it.
    private static readonly Dictionary<string, string> s_ofAnyHandler = new()
    {
        ["BodyReader"] = "AsStream OnWriterCompleted",
        ["HeaderView"] = "GetEnumerator",
        ["HeaderView's enumerator"] = "Dispose MoveNext get_Current",
        ["RequestStream"] = "Close Dispose DisposeAsync Flush FlushAsync get_CanRead get_CanSeek get_CanTimeout get_CanWrite",
        ["ResponseStream"] = "Close Dispose DisposeAsync get_CanRead get_CanSeek get_CanTimeout get_CanWrite",
    };

    private static readonly Dictionary<string, string> s_ofHosted = new(s_ofAnyHandler)
    {
        ["HostedFeatures"] = "Abort GetEnumerator get_IsReadOnly",
        ["HostedFeatures's enumerator"] = "Dispose MoveNext get_Current",
        ["ResponseWriter"] = "AsStream OnReaderCompleted get_CanGetUnflushedBytes",
    };

    private static readonly Dictionary<string, string> s_ofHostedOverHttp = new(s_ofHosted)
    {
        ["TunnelStream"] = "Close Dispose DisposeAsync get_CanRead get_CanSeek get_CanTimeout get_CanWrite",
    };

    private static readonly Dictionary<string, string> s_ofPlain = new(s_ofAnyHandler)
    {
        ["Request"] = "",
        ["Response"] = "Abort",
    };

    private readonly SocketFolder _folder = new();
    private readonly ConcurrentQueue<string> _wrong = new();
    private readonly ConcurrentQueue<KeptObjects> _kept = new();
    private readonly SortedDictionary<string, SortedSet<string>> _constant = new(StringComparer.Ordinal);     // as found
    private volatile KeptObjects? _live;    // of a request that is running, or was a moment ago: what it says must be its own, and what is done to it stays its own
    private int _lives;
    private int _left;

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task What_an_ASPNET_application_keeps_never_reaches_another_request(string scheme)
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseMillrace(static options => options.Loops = 2);
        await using WebApplication app = builder.Build();
        app.Run(Handle);
        app.Urls.Add(_folder.NewAddress(scheme));
        await app.StartAsync();
        Attack(app.Urls.Single(), hosted: true, scheme == "http" ? s_ofHostedOverHttp : s_ofHosted);
    }

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task What_a_plain_handler_keeps_never_reaches_another_request(string scheme)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(scheme), Handle, new MillraceOptions { Loops = 2 });
        Attack(server.Addresses[0], hosted: false, s_ofPlain);
    }

    // Another one would outlive the request: only the one that the request knows ends with it.
    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task Threads_that_ask_for_the_body_at_the_same_time_get_the_same_reader(string scheme)
    {
        int different = 0;
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(scheme),
            (request, response) =>
            {
                var readers = new System.IO.Pipelines.PipeReader[2];
                using var barrier = new Barrier(2);
                Thread other = new(() => Ask(0));
                void Ask(int index)
                {
                    barrier.SignalAndWait();
                    readers[index] = request.BodyReader;
                }

                other.Start();
                Ask(1);
                other.Join();
                different += ReferenceEquals(readers[0], readers[1]) ? 0 : 1;
            },
            new MillraceOptions { Loops = 1 });
        using KeptConnection connection = KeptConnection.Open(server.Addresses[0], "/", "body");
        for (int i = 0; i < 3_000; i++)
        {
            Assert.Equal(200, connection.Ask().Status);
        }

        Assert.Equal(0, different);
    }

    // ---- the applications ----

    private async Task Handle(HttpContext context)
    {
        string mark = context.Request.Headers["X-Mark"].ToString();
        if (context.Request.Query.ContainsKey("async"))
        {
            await Task.Yield();
        }

        if (context.Request.Path == "/keep")
        {
            context.Items["mark"] = mark;
            context.Response.Headers["X-Mine"] = mark;
            _ = await context.Request.Body.ReadAsync(new byte[5]);
            IEnumerator<KeyValuePair<string, StringValues>> fields = context.Request.Headers.GetEnumerator();
            _ = fields.MoveNext();
            Memory<byte> memory = context.Response.BodyWriter.GetMemory(64);
            var kept = KeptObjects.Of(mark, context, fields, memory);
            if (context.Features.Get<IHttpUpgradeFeature>() is { IsUpgradableRequest: true } upgrade)
            {
                Stream tunnel = await upgrade.UpgradeAsync();
                kept.Add(tunnel, tunnel.GetType().GetProperty("Reader")?.GetValue(tunnel) ?? tunnel);
            }

            _kept.Enqueue(kept);
            Block(context.Request.Query.ContainsKey("block"));
            return;
        }

        if (context.Request.Path == "/leave")
        {
            await LeftAsync(context.RequestAborted);
            return;
        }

        if (context.Request.Path == "/live")
        {
            Live($"LIVE{Interlocked.Increment(ref _lives)}.", own =>
            {
                context.Request.Headers["X-Mark"] = own;
                return [context, context.Request.Headers.GetEnumerator()];
            });
            return;
        }

        CancellationToken aborted = context.RequestAborted;
        if (context.Items.Count > 0 || context.Response.Headers.Count > 0 || context.Response.StatusCode != 200 || context.TraceIdentifier.Contains(KeptMember.Probe, StringComparison.Ordinal))
        {
            _wrong.Enqueue($"the request of {mark} began with what is not its own: {string.Join(' ', context.Items.Keys)} {string.Join(' ', context.Response.Headers.Keys)}");
        }

        using var reader = new StreamReader(context.Request.Body, Encoding.ASCII);
        string body = await reader.ReadToEndAsync();
        string fieldText = string.Join('|', context.Request.Headers.Where(static field => field.Key.StartsWith("X-", StringComparison.Ordinal) || field.Key == "Authorization"));
        await context.Response.WriteAsync($"{body} {context.Request.Path} {context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget} {fieldText}");
        if (aborted.IsCancellationRequested)
        {
            _wrong.Enqueue($"the token of {mark} was cancelled");
        }
    }

    private async ValueTask Handle(Request request, Response response)
    {
        string mark = request.Header("X-Mark") ?? "";
        if (request.QueryString.Contains("async", StringComparison.Ordinal))
        {
            await Task.Yield();
        }

        if (request.Path == "/keep")
        {
            response.AddHeader("X-Mine", mark);
            _ = await request.ReadAsync(new byte[5]);
            IEnumerator<KeyValuePair<string, StringValues>> fields = request.Headers.GetEnumerator();
            _ = fields.MoveNext();
            _kept.Enqueue(KeptObjects.Of(mark, request, response, fields));
            Block(request.QueryString.Contains("block", StringComparison.Ordinal));
            return;
        }

        if (request.Path == "/leave")
        {
            await LeftAsync(request.Aborted);
            return;
        }

        if (request.Path == "/live")
        {
            Live($"LIVE{Interlocked.Increment(ref _lives)}.", own =>
            {
                response.AddHeader("X-Mine", own);
                return [request, response, request.Headers.GetEnumerator()];
            });
            return;
        }

        CancellationToken aborted = request.Aborted;
        if (response.StatusCode != 200 || response.ContentType is not null)
        {
            _wrong.Enqueue($"the request of {mark} began with a response that is not its own");
        }

        using var reader = new StreamReader(request.Body, Encoding.ASCII);
        string body = await reader.ReadToEndAsync();
        string fieldText = string.Join('|', request.Headers.Where(static field => field.Key.StartsWith("X-", StringComparison.Ordinal) || field.Key == "Authorization"));
        response.WriteText($"{body} {request.Path} {request.Target} {fieldText}");
        if (aborted.IsCancellationRequested)
        {
            _wrong.Enqueue($"the token of {mark} was cancelled");
        }
    }

    // Whoever asked goes away in the middle, as some do.
    private async Task LeftAsync(CancellationToken aborted)
    {
        var gone = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using CancellationTokenRegistration registration = aborted.Register(gone.SetResult);
        await gone.Task;
        Interlocked.Increment(ref _left);
    }

    // What is asked of it, and written into it, by another thread goes on when the request has ended and the next begins.
    private void Live(string mark, Func<string, object[]> roots)
    {
        _live = KeptObjects.Of(mark, roots(mark));
        Thread.SpinWait(2_000);
    }

    private static void Block(bool blocks)
    {
        if (blocks)
        {
            Thread.Sleep(20);       // its loop is handed over
        }
    }

    // ---- the attack ----

    private void Attack(string address, bool hosted, Dictionary<string, string> expected)
    {
        bool upgrades = hosted && address.StartsWith("http:", StringComparison.Ordinal);
        for (int i = 0; i < Kept; i++)
        {
            string how = (i % 4) switch { 0 => "", 1 => "?async", 2 => "?block", _ => "?async&block" };
            bool isTunnel = upgrades && i < 2;
            (string, string)[] offer = isTunnel ? [("Connection", "Upgrade"), ("Upgrade", "test")] : [];
            using KeptConnection owner = KeptConnection.Open(address, "/keep" + how, isTunnel ? null : "KEPT body", [("X-Mark", $"KEPT{i}"), ("Authorization", $"KEPT{i}"), .. offer]);
            Assert.True(owner.Ask().Status == (isTunnel ? 101 : 200), string.Join('\n', _wrong));
        }

        SpinWait.SpinUntil(() => _kept.Count == Kept, 10_000);
        Assert.Equal(Kept, _kept.Count);
        output.WriteLine($"{_kept.Sum(static each => each.Members.Count)} members of {string.Join(", ", _kept.SelectMany(static each => each.Classes).Distinct().Order())}");
        foreach (KeptMember member in _kept.SelectMany(static each => each.Members).Where(static member => member.IsOurs))
        {
            _ = _constant.TryAdd(member.Class, new SortedSet<string>(StringComparer.Ordinal));
        }

        bool over = false;
        long calls = 0;
        long live = 0;
        var pokers = ClientThreads.Start(2, index =>
        {
            while (!Volatile.Read(ref over))
            {
                if (index == 0)
                {
                    calls += Poke();
                }
                else
                {
                    live += AskTheLiving();
                }
            }
        });
        ClientThreads others = ClientThreads.Start(Clients, index => Visit(address, index));
        ClientThreads strangers = ClientThreads.Start(2, index =>
        {
            while (!Volatile.Read(ref over))
            {
                using KeptConnection stranger = KeptConnection.Open(address, index == 0 ? "/live" : "/leave");
                if (index == 0)
                {
                    BeAlive(stranger, ref over);
                }
                else
                {
                    stranger.Send();
                    Thread.Sleep(1);
                }
            }
        });
        others.Join();
        Volatile.Write(ref over, true);
        pokers.Join();
        strangers.Join();
        output.WriteLine($"{calls} calls of kept members, {live} calls of members of {_lives} requests that ran or had just ended, {_left} clients that left");
        Assert.True(calls > _kept.Sum(static each => each.Members.Count), "not every member was called while others were served");
        Assert.True(live > 10_000 && _lives > 1_000, "hardly a living request was asked");
        Assert.True(_left > 100, "hardly a client has left");
        Assert.All(_kept.SelectMany(static each => each.Tokens), static token => Assert.False(token.IsCancellationRequested));
        Assert.All(_kept.SelectMany(static each => each.ConnectionTokens), static token => Assert.True(token.IsCancellationRequested));     // their own connections have ended
        Assert.Equal(_kept.Count, _kept.Select(static each => each.Tokens.First()).Distinct().Count());
        foreach (string wrong in _wrong.Distinct().Take(20))
        {
            output.WriteLine(wrong);
        }

        Assert.Empty(_wrong);
        Assert.Equal(expected.OrderBy(static each => each.Key, StringComparer.Ordinal).Select(static each => $"{each.Key}: {each.Value}"), _constant.Select(static each => $"{each.Key}: {string.Join(' ', each.Value)}"));
    }

    // Another user: everything that comes back must be his, and nothing of it anybody else's.
    private void Visit(string address, int index)
    {
        string mark = string.Create(CultureInfo.InvariantCulture, $"MARK{index}");
        foreach (string how in (string[])["", "?async"])
        {
            string target = $"/{mark}{how}";
            using KeptConnection connection = KeptConnection.Open(address, target, $"{mark} body", ("X-Mark", mark), ("Authorization", mark));
            string expected = $"{mark} body /{mark} {target} ";
            for (int i = 0; i < Others / Clients / 2; i++)
            {
                (int status, string text) = connection.Ask();
                string fields = text.StartsWith(expected, StringComparison.Ordinal) ? text[expected.Length..] : text;
                if (status != 200 || fields.Split('|').Order().SequenceEqual([$"[Authorization, {mark}]", $"[X-Mark, {mark}]"]) is false)
                {
                    _wrong.Enqueue($"{mark} was answered {status} {text}");
                }

                if (connection.Fields.Contains(KeptMember.Probe, StringComparison.OrdinalIgnoreCase) || connection.Fields.Contains("KEPT", StringComparison.Ordinal))
                {
                    _wrong.Enqueue($"{mark} was answered with the fields {connection.Fields}");
                }
            }
        }
    }

    private int Poke()
    {
        int calls = 0;
        foreach (KeptObjects kept in _kept)
        {
            foreach (KeptMember member in kept.Members)
            {
                calls++;
                (string? said, Exception? threw) = member.Ask();
                string all = said ?? threw!.ToString();
                if (all.Contains("MARK", StringComparison.Ordinal) || all.Contains("KEPT", StringComparison.Ordinal) && !all.Contains(kept.Mark, StringComparison.Ordinal) && !all.Contains("KEPT body", StringComparison.Ordinal))
                {
                    _wrong.Enqueue($"{member.Name} of {kept.Mark} answered {all}");
                }
                else if (threw is MissingArgumentException)
                {
                    _wrong.Enqueue($"{member.Name}: {threw.Message}");
                }
                else if (member.IsOurs && threw is not (ObjectDisposedException or NotSupportedException) && !IsRefusedByBase(threw))
                {
                    if (threw is null)
                    {
                        _ = _constant[member.Class].Add(member.Method);
                    }
                    else
                    {
                        _wrong.Enqueue($"{member.Name} does not say that its request has ended, but {threw}");
                    }
                }
            }
        }

        return calls;
    }

    // What was asked of it, and what is written into its header by another thread, may come back to its own client, or end its connection.
    private void BeAlive(KeptConnection connection, ref bool over)
    {
        try
        {
            while (!Volatile.Read(ref over))
            {
                _ = connection.Ask();
                if (connection.Fields.Contains("MARK", StringComparison.Ordinal) || connection.Fields.Contains("KEPT", StringComparison.Ordinal))
                {
                    _wrong.Enqueue($"a living request was answered with the fields {connection.Fields}");
                }
            }
        }
        catch (Exception)
        {
            // what another thread did to its own request
        }
    }

    // Stream and PipeReader look at arguments, and refuse timeouts, before they ask the class below them.
    private static bool IsRefusedByBase(Exception? threw) =>
        (threw is ArgumentException or InvalidOperationException) && threw.TargetSite?.DeclaringType?.Assembly != typeof(MillraceServer).Assembly;

    // The end of the request, and the beginning of the next, come at some point between two of these.
    private int AskTheLiving()
    {
        int calls = 0;
        if (_live is { } live)
        {
            foreach (KeptMember member in live.Members)
            {
                calls++;
                (string? said, Exception? threw) = member.Ask();
                string all = said ?? threw!.ToString();
                if (all.Contains("MARK", StringComparison.Ordinal) || all.Contains("KEPT", StringComparison.Ordinal) || (all.Contains("LIVE", StringComparison.Ordinal) && !all.Contains(live.Mark, StringComparison.Ordinal)))
                {
                    _wrong.Enqueue($"{member.Name} of {live.Mark} answered {all}");
                }
            }
        }

        return calls;
    }
}
