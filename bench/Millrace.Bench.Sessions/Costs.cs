// What a session costs a request, without any server around it: time and managed memory, of AddSession over its cache in memory, of Millrace.Sessions, and of that over
// the same cache, in turns.

using System.Diagnostics;
using System.Globalization;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.DataProtection;
using Microsoft.Extensions.Logging.Abstractions;

namespace Millrace.Bench.Sessions;

internal static class Costs
{
    private const int Rounds = 7;
    private const int Requests = 5_000;
    private const string CookieField = ".AspNetCore.Session=";

    private static readonly (string Name, bool HasCookie, RequestDelegate Handler)[] s_requests =
    [
        ("without a cookie, session not used", false, static _ => Task.CompletedTask),
        ("with a cookie, session not used", true, static _ => Task.CompletedTask),
        ("reads a value", true, static context => Read(context)),
        ("changes a value", true, static context => Write(context)),
        ("begins a session", false, static context => Write(context)),
    ];

    private static int s_value;

    public static void Print()
    {
        Console.WriteLine("| request | without sessions | AddSession | Millrace.Sessions | ratio of times | Millrace.Sessions, IDistributedCache |");
        Console.WriteLine("|---|---|---|---|---|---|");
        foreach ((string name, bool hasCookie, RequestDelegate handler) in s_requests)
        {
            bool isBare = name.EndsWith("not used", StringComparison.Ordinal);
            Run[] runs =
            [
                new(static _ => { }, static _ => { }, isBare ? handler : static _ => Task.CompletedTask, hasCookie, isBare: true),
                new(static services => services.AddDistributedMemoryCache().AddSession(), static app => SessionMiddlewareExtensions.UseSession(app), handler, hasCookie),
                new(static services => services.AddMillraceSession(), static app => app.UseMillraceSession(), handler, hasCookie),
                new(static services => services.AddDistributedMemoryCache().AddMillraceSession().AddMillraceSessionDistributedCache(), static app => app.UseMillraceSession(), handler, hasCookie),
            ];
            for (int i = 0; i < Rounds; i++)
            {
                Array.ForEach(runs, static run => run.Measure());
            }
            Console.WriteLine($"| {name} | {(isBare ? runs[0] : "")} | {runs[1]} | {runs[2]} | {(runs[2].Nanoseconds / runs[1].Nanoseconds).ToString("F2", CultureInfo.InvariantCulture)} | {runs[3]} |");
        }
    }

    private static Task Read(HttpContext context)
    {
        _ = context.Session.GetInt32("n");
        return Task.CompletedTask;
    }

    private static Task Write(HttpContext context)
    {
        context.Session.SetInt32("n", ++s_value);
        return context.Response.StartAsync();
    }

    private sealed class Run
    {
        private readonly RequestDelegate _pipeline;
        private readonly string? _cookie;
        private readonly List<double> _times = [];
        private readonly List<double> _bytes = [];

        public Run(Action<IServiceCollection> add, Action<IApplicationBuilder> use, RequestDelegate handler, bool hasCookie, bool isBare = false)
        {
            var services = new ServiceCollection();
            services.AddSingleton<IDataProtectionProvider>(new EphemeralDataProtectionProvider());
            services.AddSingleton<ILoggerFactory>(NullLoggerFactory.Instance);
            services.AddSingleton(typeof(ILogger<>), typeof(NullLogger<>));
            services.AddOptions();
            add(services);
            ServiceProvider provider = services.BuildServiceProvider();
            _pipeline = Build(provider, use, handler);
            _cookie = !hasCookie ? null : isBare ? CookieField + new string('A', 22) : Begin(Build(provider, use, Write));
        }

        public double Nanoseconds => _times.Order().ElementAt(_times.Count / 2);

        public void Measure()
        {
            Repeat();
            long bytes = GC.GetAllocatedBytesForCurrentThread();
            var clock = Stopwatch.StartNew();
            Repeat();
            _times.Add(clock.Elapsed.TotalNanoseconds / Requests);
            _bytes.Add((GC.GetAllocatedBytesForCurrentThread() - bytes) / (double)Requests);
        }

        public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{Nanoseconds:N0} ns, {_bytes.Order().ElementAt(_bytes.Count / 2):N0} B");

        private void Repeat()
        {
            for (int i = 0; i < Requests; i++)
            {
                _pipeline(NewContext(_cookie).Context).GetAwaiter().GetResult();
            }
        }

        // The session is on the server afterwards: its cookie has come back once.
        private static string Begin(RequestDelegate write)
        {
            (HttpContext context, StartingFeature response) = NewContext(null);
            write(context).GetAwaiter().GetResult();
            string cookie = response.Headers.SetCookie.ToString().Split(';')[0];
            write(NewContext(cookie).Context).GetAwaiter().GetResult();
            return cookie.StartsWith(CookieField, StringComparison.Ordinal) ? cookie : throw new InvalidOperationException("There is no cookie.");
        }

        private static RequestDelegate Build(IServiceProvider services, Action<IApplicationBuilder> use, RequestDelegate handler)
        {
            var app = new ApplicationBuilder(services);
            use(app);
            app.Run(handler);
            return app.Build();
        }

        private static (HttpContext Context, StartingFeature Response) NewContext(string? cookie)
        {
            var context = new DefaultHttpContext();
            var response = new StartingFeature();
            context.Features.Set<Microsoft.AspNetCore.Http.Features.IHttpResponseFeature>(response);
            context.Features.Set<Microsoft.AspNetCore.Http.Features.IHttpResponseBodyFeature>(response);
            if (cookie is not null)
            {
                context.Request.Headers.Cookie = cookie;
            }
            return (context, response);
        }
    }

    // A response that calls what waits for its head.
    private sealed class StartingFeature : Microsoft.AspNetCore.Http.Features.HttpResponseFeature, Microsoft.AspNetCore.Http.Features.IHttpResponseBodyFeature
    {
        private readonly Stack<(Func<object, Task> Callback, object State)> _starting = new();
        private bool _hasStarted;

        public override bool HasStarted => _hasStarted;

        public Stream Stream => Stream.Null;

        public System.IO.Pipelines.PipeWriter Writer => throw new NotSupportedException();

        public override void OnStarting(Func<object, Task> callback, object state) => _starting.Push((callback, state));

        public async Task StartAsync(CancellationToken cancellationToken = default)
        {
            while (_starting.TryPop(out (Func<object, Task> Callback, object State) one))
            {
                await one.Callback(one.State);
            }
            _hasStarted = true;
        }

        public Task CompleteAsync() => Task.CompletedTask;

        public void DisableBuffering()
        {
        }

        public Task SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken = default) => throw new NotSupportedException();
    }
}
