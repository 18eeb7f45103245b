// The request as ASP.NET Core sees it: features, limits, identity, what FastCGI adds.

using System.Buffers;
using System.Globalization;
using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.AspNetCore;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class RequestFeatureTests
{
    [Fact]
    public async Task The_features_of_a_server_are_there()
    {
        Type[] expected =
        [
            typeof(IHttpRequestFeature), typeof(IHttpResponseFeature), typeof(IHttpResponseBodyFeature), typeof(IHttpRequestLifetimeFeature), typeof(IRequestBodyPipeFeature),
            typeof(IHttpRequestBodyDetectionFeature), typeof(IHttpConnectionFeature), typeof(IHttpRequestIdentifierFeature), typeof(IHttpMaxRequestBodySizeFeature),
            typeof(IHttpBodyControlFeature), typeof(IEndpointFeature), typeof(IRouteValuesFeature), typeof(IFastCgiFeature), typeof(IBadRequestExceptionFeature),
        ];
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", (HttpContext context) =>
        {
            IEnumerable<string> missing = expected.Where(type => context.Features[type] is null).Select(static type => type.Name);
            IEnumerable<string> unlisted = expected.Where(type => !context.Features.Any(pair => pair.Key == type)).Select(static type => "not listed: " + type.Name);
            return string.Join(", ", missing.Concat(unlisted));
        }));
        Assert.Equal("", app.Get("/").Text);
    }

    // As on Kestrel 10: there all the time, and empty as long as the handler runs, whatever it has caught.
    [Theory]
    [InlineData("/throws", "null refused")]
    [InlineData("/fine", "null null")]
    [InlineData("/other", "null null")]
    public async Task The_exception_of_a_refused_request_is_there_when_it_is_completed_IBadRequestExceptionFeature(string path, string expected)
    {
        var seen = new TaskCompletionSource<string>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.Run(context =>
        {
            string first = Error(context);
            context.Response.OnCompleted(() =>
            {
                seen.SetResult($"{first} {Error(context)}");
                return Task.CompletedTask;
            });
            return (string?)context.Request.Path switch
            {
                "/throws" => throw new BadHttpRequestException("refused"),
                "/other" => throw new InvalidOperationException(),
                _ => Task.CompletedTask,
            };
        }));
        Assert.Equal(path == "/throws" ? 400 : path == "/fine" ? 200 : 500, app.Get(path).Status);
        Assert.Equal(expected, await seen.Task.WaitAsync(TimeSpan.FromSeconds(20)));
    }

    private static string Error(HttpContext context) => context.Features.GetRequiredFeature<IBadRequestExceptionFeature>().Error?.Message ?? "null";

    [Fact]
    public async Task A_feature_that_is_set_replaces_the_servers_until_the_end_of_its_request()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.MapGet("/set", static (HttpContext context) =>
            {
                int revision = context.Features.Revision;
                context.Features.Set<IHttpRequestIdentifierFeature>(new HttpRequestIdentifierFeature { TraceIdentifier = "mine" });
                return $"{context.TraceIdentifier} {context.Features.Revision > revision}";
            });
            app.MapGet("/get", static (HttpContext context) => context.TraceIdentifier);
        });
        using FastCgiPeer peer = app.Connect();
        Assert.Equal("mine True", peer.Exchange(new FastCgiRequest("/set")).Text);
        Assert.NotEqual("mine", peer.Exchange(new FastCgiRequest("/get")).Text);
    }

    // Get is quick for what hosting asks each request for.
    [Fact]
    public async Task Each_feature_of_the_server_can_be_replaced_and_taken_away()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static context =>
        {
            Replace<IHttpRequestFeature>(context.Features);
            Replace<IHttpResponseFeature>(context.Features);
            Replace<IHttpResponseBodyFeature>(context.Features);
            Replace<IEndpointFeature>(context.Features);
            Replace<IRouteValuesFeature>(context.Features);
            Replace<IHttpRequestLifetimeFeature>(context.Features);
            Replace<IHttpRequestBodyDetectionFeature>(context.Features);
            Replace<IRequestBodyPipeFeature>(context.Features);
            Replace<IHttpConnectionFeature>(context.Features);
            Replace<IHttpRequestIdentifierFeature>(context.Features);
            Replace<IHttpMaxRequestBodySizeFeature>(context.Features);
            Replace<IHttpBodyControlFeature>(context.Features);
            Replace<IBadRequestExceptionFeature>(context.Features);
            Replace<IFastCgiFeature>(context.Features);
            return context.Response.WriteAsync("all");
        }));
        Assert.Equal("all", app.Get("/").Text);
    }

    private static void Replace<TFeature>(IFeatureCollection features)
        where TFeature : class
    {
        TFeature own = features.GetRequiredFeature<TFeature>();
        features.Set<TFeature>(null);
        Assert.Null(features.Get<TFeature>());
        Assert.Null(features[typeof(TFeature)]);
        TFeature other = System.Reflection.DispatchProxy.Create<TFeature, Nothing>();
        features.Set(other);
        Assert.Same(other, features.Get<TFeature>());
        Assert.Same(other, features[typeof(TFeature)]);
        features[typeof(TFeature)] = own;
        Assert.Same(own, features.Get<TFeature>());
    }

    // Must be open for a proxy to be made of it.
    public class Nothing : System.Reflection.DispatchProxy
    {
        protected override object? Invoke(System.Reflection.MethodInfo? targetMethod, object?[]? args) => null;
    }

    [Fact]
    public async Task The_feature_that_hosting_sets_is_there_listed_and_can_be_replaced_IHttpActivityFeature()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static context =>
        {
            IFeatureCollection features = context.Features;
            features.Set<IHttpActivityFeature>(null);
            Assert.Null(features.Get<IHttpActivityFeature>());
            Assert.DoesNotContain(features, static pair => pair.Key == typeof(IHttpActivityFeature));
            int revision = features.Revision;
            IHttpActivityFeature own = System.Reflection.DispatchProxy.Create<IHttpActivityFeature, Nothing>();
            features.Set(own);
            Assert.Same(own, features.Get<IHttpActivityFeature>());
            Assert.Same(own, features[typeof(IHttpActivityFeature)]);
            Assert.Single(features, static pair => pair.Key == typeof(IHttpActivityFeature));
            IHttpActivityFeature other = System.Reflection.DispatchProxy.Create<IHttpActivityFeature, Nothing>();
            features[typeof(IHttpActivityFeature)] = other;
            Assert.Same(other, features.Get<IHttpActivityFeature>());
            Assert.Equal(revision + 2, features.Revision);
            return context.Response.WriteAsync("all");
        }));
        Assert.Equal("all", app.Get("/").Text);
    }

    [Fact]
    public async Task Two_threads_may_change_a_request_at_a_time()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static async context =>
        {
            IHttpRequestFeature request = context.Features.GetRequiredFeature<IHttpRequestFeature>();
            using var both = new Barrier(2);
            Task other = Task.Run(() =>
            {
                both.SignalAndWait();
                request.Path = "/elsewhere";
            });
            both.SignalAndWait();
            request.PathBase = "/base";
            await other;
            await context.Response.WriteAsync(request.PathBase + request.Path);
        }));
        for (int i = 0; i < 300; i++)
        {
            Assert.Equal("/base/elsewhere", app.Get("/").Text);
        }
    }

    [Fact]
    public async Task Trace_identifiers_are_unique()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static (HttpContext context) => context.TraceIdentifier));
        var seen = new HashSet<string>();
        for (int connection = 0; connection < 4; connection++)
        {
            using FastCgiPeer peer = app.Connect();
            for (int i = 0; i < 250; i++)
            {
                Assert.True(seen.Add(peer.Exchange(new FastCgiRequest("/")).Text));
            }
        }
    }

    [Fact]
    public async Task What_the_front_server_says_about_the_request_arrives()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Map("/{**rest}", static (HttpContext context) => string.Join('|',
            context.Request.Method, context.Request.Scheme, context.Request.Host, context.Request.Path.Value, context.Request.QueryString, context.Request.Query["x"],
            context.Connection.RemoteIpAddress, context.Connection.RemotePort, context.Connection.LocalIpAddress, context.Connection.LocalPort,
            context.Request.Headers["X-Some-Thing"], context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget)));
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/a%20b/%2Fc?x=%31", "PUT").With("HTTPS", "on").WithHeader("X-Some-Thing", "value"));
        Assert.Equal("PUT|https|example.com|/a b/%2Fc|?x=%31|1|198.51.100.4|51342|192.0.2.1|8080|value|/a%20b/%2Fc?x=%31", response.Text);
    }

    // Apache passes an absolute target on as it came, and HTTP/1.0 needs no Host beside it. Request.Host is the header of that name.
    [Theory]
    [InlineData("http://real.example:81/x", "real.example:81 real.example:81")]
    [InlineData("http://real.example", "real.example real.example")]
    [InlineData("/x", "front.example:8080 front.example:8080")]
    public async Task Without_HTTP_HOST_the_host_is_that_of_the_target_and_without_one_the_front_servers_RFC9112_3_2_2(string target, string expected)
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static context =>
            context.Response.WriteAsync($"{context.Request.Host} {context.Request.Headers.Host}")));
        FastCgiRequest request = new FastCgiRequest(target) { Host = null }.With("SERVER_NAME", "front.example");
        for (int i = 0; i < 2; i++)
        {
            Assert.Equal(expected, app.Exchange(request).Text);
        }
    }

    [Fact]
    public async Task The_FastCGI_feature_has_all_parameters_and_none_enters_the_environment()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static (HttpContext context) =>
        {
            IReadOnlyDictionary<string, string> parameters = context.Features.GetRequiredFeature<IFastCgiFeature>().Parameters;
            return $"{parameters["REMOTE_USER"]} {parameters["MILLRACE_TEST_PARAMETER"]} {parameters["REQUEST_METHOD"]} {Environment.GetEnvironmentVariable("MILLRACE_TEST_PARAMETER") ?? "absent"}";
        }));
        Assert.Equal("alice custom GET absent", app.Exchange(new FastCgiRequest("/").With("REMOTE_USER", "alice").With("MILLRACE_TEST_PARAMETER", "custom")).Text);
    }

    [Fact]
    public async Task UsePathBase_moves_the_prefix_out_of_the_path()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.UsePathBase("/prefix");
            app.UseRouting();
            app.MapGet("/page", static (HttpContext context) => $"{context.Request.PathBase} {context.Request.Path}");
        });
        Assert.Equal("/prefix /page", app.Get("/prefix/page").Text);
        Assert.Equal(" /page", app.Get("/page").Text);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_body_over_the_limit_is_413_when_it_is_read(bool announced)
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.MapPost("/read", static async (HttpContext context) =>
            {
                return await Count(context);
            });
            app.MapPost("/more", static async (HttpContext context) =>
            {
                context.Features.GetRequiredFeature<IHttpMaxRequestBodySizeFeature>().MaxRequestBodySize = 5_000;
                return await Count(context);
            });
            app.MapPost("/ignore", static () => "not read");
        }, options: static options => options.MaxRequestBodySize = 1_000);
        FastCgiRequest Post(string target, int size) => new(target, "POST") { Body = new byte[size], AnnouncesLength = announced };
        Assert.Equal("1000", app.Exchange(Post("/read", 1_000)).Text);
        Assert.Equal(413, app.Exchange(Post("/read", 1_001)).Status);
        Assert.Equal("not read", app.Exchange(Post("/ignore", 1_001)).Text);
        Assert.Equal("5000", app.Exchange(Post("/more", 5_000)).Text);
        Assert.Equal(413, app.Exchange(Post("/more", 5_001)).Status);
    }

    [Fact]
    public async Task The_limit_is_fixed_once_reading_has_begun()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapPost("/", static async (HttpContext context) =>
        {
            var limit = context.Features.GetRequiredFeature<IHttpMaxRequestBodySizeFeature>();
            string before = $"{limit.IsReadOnly} {limit.MaxRequestBodySize}";
            await Count(context);
            Assert.Throws<InvalidOperationException>(() => limit.MaxRequestBodySize = 1);
            return $"{before} {limit.IsReadOnly}";
        }));
        Assert.Equal("False 30000000 True", app.Exchange(new FastCgiRequest("/", "POST") { Body = new byte[10] }).Text);
    }

    [Fact]
    public async Task Synchronous_reading_and_writing_is_refused_unless_it_is_allowed()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapPost("/", static (HttpContext context, bool allow) =>
        {
            context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = allow;
            if (!allow)
            {
                Assert.Throws<InvalidOperationException>(() => context.Request.Body.Read(new byte[10], 0, 10));
                Assert.Throws<InvalidOperationException>(() => context.Response.Body.Write(new byte[10], 0, 10));
                Assert.Throws<InvalidOperationException>(context.Response.Body.Flush);
                return Results.Text("refused");
            }

            using var reader = new StreamReader(context.Request.Body);
            using var writer = new StreamWriter(context.Response.Body);
            writer.Write("got " + reader.ReadToEnd());
            return Results.Empty;
        }));
        Assert.Equal("refused", app.Exchange(new FastCgiRequest("/?allow=false", "POST") { Body = "text"u8.ToArray() }).Text);
        Assert.Equal("got text", app.Exchange(new FastCgiRequest("/?allow=true", "POST") { Body = "text"u8.ToArray() }).Text);
    }

    [Theory]
    [InlineData("GET", -1, false)]
    [InlineData("POST", 0, false)]
    [InlineData("POST", 5, true)]
    public async Task Body_detection_knows_whether_there_is_a_body(string method, int size, bool expected)
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapMethods("/", ["GET", "POST"], static (HttpContext context) =>
            $"{context.Features.GetRequiredFeature<IHttpRequestBodyDetectionFeature>().CanHaveBody}"));
        Assert.Equal($"{expected}", app.Exchange(new FastCgiRequest("/", method) { Body = size < 0 ? null : new byte[size] }).Text);
    }

    // Some web servers send the end of STDIN by itself, after the head.
    [Theory]
    [InlineData(null, "", false)]
    [InlineData("application/json", "", true)]
    [InlineData(null, "x", true)]
    public async Task Over_FastCGI_a_POST_without_length_and_type_has_no_body_until_a_byte_has_come(string? type, string begun, bool expected)
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapPost("/", static (HttpContext context) =>
            $"{context.Features.GetRequiredFeature<IHttpRequestBodyDetectionFeature>().CanHaveBody}"));
        using FastCgiPeer peer = app.Connect();
        var request = new FastCgiRequest("/", "POST");
        if (type is not null)
        {
            request.With("CONTENT_TYPE", type);
        }

        peer.Send([.. request.Head(), .. begun.Length > 0 ? request.Stdin(Encoding.ASCII.GetBytes(begun)) : []]);
        Assert.Equal($"{expected}", peer.Receive().Text);
    }

    // A binder reads a body that there is, and finds an empty one wrong. What it does must not depend on how the bytes were split up on their way.
    [Theory]
    [InlineData("", false)]
    [InlineData("Content-Length: 0\r\n", false)]
    [InlineData("Content-Length: 3\r\n", true)]
    [InlineData("Transfer-Encoding: chunked\r\n", true, "0\r\n\r\n")]
    [InlineData("Transfer-Encoding: chunked\r\n", true, "0\r\n")]
    [InlineData("Transfer-Encoding: chunked\r\n", true)]
    [InlineData("Transfer-Encoding: chunked\r\n", true, "3\r\nabc\r\n0\r\n\r\n")]
    public async Task Over_HTTP_the_head_says_whether_there_is_a_body(string fields, bool expected, string body = "")
    {
        using var folder = new SocketFolder();
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapPost("/", static (HttpContext context) => $"found {context.Features.GetRequiredFeature<IHttpRequestBodyDetectionFeature>().CanHaveBody}"),
            address: "http://unix:" + folder.PathOf("app.sock"));
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        client.Connect(new UnixDomainSocketEndPoint(folder.PathOf("app.sock")));
        client.Send(Encoding.ASCII.GetBytes($"POST / HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n{body}"));
        var received = new StringBuilder();
        byte[] buffer = new byte[4096];
        while (!received.ToString().Contains("found ", StringComparison.Ordinal))
        {
            received.Append(Encoding.ASCII.GetString(buffer, 0, client.Receive(buffer)));
        }

        Assert.Contains($"found {expected}", received.ToString(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task What_middleware_takes_away_of_the_target_does_not_come_back(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static app => app.Run(static async context =>
        {
            HttpRequest request = context.Request;
            request.Path = default;
            request.QueryString = default;
            context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget = null!;
            await context.Response.WriteAsync($"{request.Path}|{request.QueryString}|{request.Query.Count}|{context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget}");
        }));
        Assert.Equal("||0|", (await app.Get("/page?token=secret")).Text);
    }

    // End points can be changed by whoever has them.
    [Fact]
    public async Task What_an_application_does_to_an_end_point_is_seen_by_no_other_request_IConnectionEndPointFeature()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.Run(static context =>
            {
                var feature = context.Features.GetRequiredFeature<IConnectionEndPointFeature>();
                IPEndPoint local = (IPEndPoint)feature.LocalEndPoint!, remote = (IPEndPoint)feature.RemoteEndPoint!;
                string text = $"{context.Connection.Id} {local} {remote}";
                (local.Port, remote.Port, remote.Address) = (1, 2, IPAddress.Any);
                return context.Response.WriteAsync(text);
            }),
            address: "http://127.0.0.1:0");
        using var client = new HttpClient { BaseAddress = new Uri(app.Address) };
        string first = await client.GetStringAsync("/", TestContext.Current.CancellationToken);
        Assert.Contains($" 127.0.0.1:{client.BaseAddress.Port} 127.0.0.1:", first, StringComparison.Ordinal);
        Assert.Equal(first, await client.GetStringAsync("/", TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task A_peer_that_goes_away_fires_RequestAborted()
    {
        using var entered = new SemaphoreSlim(0);
        using var aborted = new SemaphoreSlim(0);
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/", async (HttpContext context) =>
        {
            _ = context.RequestAborted.Register(() => aborted.Release());   // not disposed of: the handler may end before callbacks run
            entered.Release();
            await Task.Delay(10_000, context.RequestAborted);
        }));
        FastCgiPeer peer = app.Connect();
        peer.Send(new FastCgiRequest("/").ToBytes());
        Assert.True(await entered.WaitAsync(10_000));
        peer.Dispose();
        Assert.True(await aborted.WaitAsync(10_000));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_body_over_the_limit_stays_413_for_whoever_reads_on(bool announced)
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapPost("/", static async (HttpContext context) =>
            {
                for (int i = 0; i < 3; i++)
                {
                    BadHttpRequestException read = await Assert.ThrowsAsync<BadHttpRequestException>(async () => await Count(context));
                    BadHttpRequestException piped = await Assert.ThrowsAsync<BadHttpRequestException>(async () => await context.Request.BodyReader.ReadAsync());
                    Assert.Equal((413, 413), (read.StatusCode, piped.StatusCode));
                }

                return "refused";
            }),
            options: static options => options.MaxRequestBodySize = 1_000);
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/", "POST") { Body = new byte[1_001], AnnouncesLength = announced });
        Assert.True(response is { Status: 200, Text: "refused" }, response.ToString());
    }

    private static async Task<string> Count(HttpContext context)
    {
        var buffer = new byte[300];
        int total = 0;
        int count;
        while ((count = await context.Request.Body.ReadAsync(buffer)) > 0)
        {
            total += count;
        }

        return total.ToString(CultureInfo.InvariantCulture);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_replaced_body_is_disposed_of_with_the_request_if_it_was_read_through_its_reader(bool isRead)
    {
        using var body = new MemoryStream("abc"u8.ToArray());
        var seen = new TaskCompletionSource<bool>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.Run(async context =>
        {
            context.Response.OnCompleted(() =>
            {
                seen.SetResult(body.CanRead);
                return Task.CompletedTask;
            });
            context.Request.Body = body;
            if (isRead)
            {
                ReadResult result = await context.Request.BodyReader.ReadAsync();
                context.Request.BodyReader.AdvanceTo(result.Buffer.End);
            }

            await context.Response.WriteAsync($"{body.Position} {body.CanRead}");
        }));
        Assert.Equal($"{(isRead ? 3 : 0)} True", app.Get("/").Text);
        Assert.Equal(!isRead, await seen.Task.WaitAsync(TimeSpan.FromSeconds(20)));
    }

    [Fact]
    public async Task The_memory_of_a_read_that_nobody_awaits_is_nobody_elses_behind_the_request()
    {
        using var body = new SilentStream();
        var seen = new TaskCompletionSource<bool>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.Run(context =>
        {
            context.Response.OnCompleted(() =>
            {
                byte[][] lent = [.. Enumerable.Range(0, 20).Select(_ => ArrayPool<byte>.Shared.Rent(body.Memory!.Length))];
                seen.SetResult(lent.Contains(body.Memory));
                return Task.CompletedTask;
            });
            context.Request.Body = body;
            _ = context.Request.BodyReader.ReadAsync().AsTask();
            return Task.CompletedTask;
        }));
        Assert.Equal(200, app.Get("/").Status);
        Assert.False(await seen.Task.WaitAsync(TimeSpan.FromSeconds(20)));
    }

    // Nothing of it ever comes.
    private sealed class SilentStream : MemoryStream
    {
        public byte[]? Memory { get; private set; }

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            Memory = MemoryMarshal.TryGetArray(buffer, out ArraySegment<byte> array) ? array.Array : null;
            return new ValueTask<int>(new TaskCompletionSource<int>().Task);
        }
    }

    // An address can be changed by whoever has it.
    [Fact]
    public async Task Addresses_that_a_request_changes_are_its_own()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static web => web.Run(static async context =>
            {
                var points = context.Features.GetRequiredFeature<IConnectionEndPointFeature>();
                IPAddress[] all = [context.Connection.RemoteIpAddress!, context.Connection.LocalIpAddress!, ((IPEndPoint)points.RemoteEndPoint!).Address, ((IPEndPoint)points.LocalEndPoint!).Address];
                string before = string.Join(' ', all.Select(static address => address.ToString()));
                foreach (IPAddress address in all)
                {
                    address.ScopeId = 5;
                }

                await context.Response.WriteAsync($"{context.Connection.Id} {before}");
            }),
            address: "http://[::1]:0");
        using var client = new HttpClient { BaseAddress = new Uri(app.Address) };
        string first = await client.GetStringAsync("/");
        Assert.EndsWith(" ::1 ::1 ::1 ::1", first, StringComparison.Ordinal);
        Assert.Equal(first, await client.GetStringAsync("/"));
    }
}
