// An application with sessions on a real server, whose pages do to their session what the address says:
//
//   /set a 1;get a;flush;set b 2      one step after the other; what they answer comes back, joined by commas
//
// and visitors with a cookie each.

using System.Text;
using Microsoft.AspNetCore.DataProtection;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Tests.Site;

internal sealed class TestSite : IAsyncDisposable
{
    private readonly WebApplication _app;
    private readonly SocketsHttpHandler _handler = new() { UseCookies = false, AllowAutoRedirect = false };

    private TestSite(WebApplication app, ManualTime time, LogLines log)
    {
        _app = app;
        Time = time;
        Log = log;
        Client = new HttpClient(_handler) { BaseAddress = new Uri(app.Urls.Single()) };
    }

    public ManualTime Time { get; }

    public LogLines Log { get; }

    public HttpClient Client { get; }

    public IServiceProvider Services => _app.Services;

    /// <summary>Requests that have begun to load their session.</summary>
    public int Loading => Volatile.Read(ref Services.GetRequiredService<Loads>().Begun);

    public SessionCounters Counters => Services.GetRequiredService<SessionCounters>();

    public MemorySessionStore Store => Services.GetRequiredService<MemorySessionStore>();

    public static Task<TestSite> StartAsync(Action<MillraceSessionOptions>? options = null, Action<WebApplicationBuilder>? build = null, Action<WebApplication>? use = null) =>
        StartAsync(builder => builder.Services.AddMillraceSession(options ?? (static _ => { })), build, use);

    public static Task<TestSite> StartStockAsync() => StartAsync(
        static builder =>
        {
            builder.Services.AddDistributedMemoryCache();
            builder.Services.AddSession();
        },
        null,
        null);

    private static async Task<TestSite> StartAsync(Action<WebApplicationBuilder> add, Action<WebApplicationBuilder>? build, Action<WebApplication>? use)
    {
        var time = new ManualTime();
        var log = new LogLines();
        WebApplicationBuilder builder = WebApplication.CreateEmptyBuilder(new WebApplicationOptions());
        builder.WebHost.UseKestrelCore().UseUrls("http://127.0.0.1:0");
        builder.Logging.AddProvider(log).SetMinimumLevel(LogLevel.Information);
        builder.Services.AddSingleton<TimeProvider>(time).AddSingleton<Loads>();
        builder.Services.AddSingleton<IDataProtectionProvider>(new EphemeralDataProtectionProvider());
        add(builder);
        build?.Invoke(builder);
        WebApplication app = builder.Build();
        if (use is null)
        {
            app.UseSession();
        }
        else
        {
            use(app);
        }
        app.Run(DoAsync);
        await app.StartAsync();
        return new TestSite(app, time, log);
    }

    public Visitor NewVisitor() => new(this);

    public async ValueTask DisposeAsync()
    {
        Client.Dispose();
        _handler.Dispose();
        await _app.DisposeAsync();
    }

    private static async Task DoAsync(HttpContext context)
    {
        var answers = new List<string>();
        foreach (string step in Uri.UnescapeDataString(context.Request.Path.Value![1..]).Split(';', StringSplitOptions.RemoveEmptyEntries))
        {
            try
            {
                await StepAsync(context, step.Split(' '), answers);
            }
            catch (Exception error)
            {
                answers.Add(error.GetType().Name);
            }
        }
        if (context.Response.StatusCode == StatusCodes.Status200OK)
        {
            await context.Response.WriteAsync(string.Join(',', answers));
        }
    }

    private static async Task StepAsync(HttpContext context, string[] words, List<string> answers)
    {
        switch (words[0])
        {
            case "set":
                context.Session.SetString(words[1], words[2]);
                break;
            case "big":
                context.Session.Set(words[1], new byte[int.Parse(words[2], null)]);
                break;
            case "next":        // the array that it has got is the one that it sets
                byte[] value = context.Session.Get(words[1])!;
                value[0]++;
                context.Session.Set(words[1], value);
                break;
            case "scribble":
                context.Session.Get(words[1])![0]++;
                break;
            case "length":
                answers.Add(context.Session.Get(words[1])?.Length.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "-");
                break;
            case "get":
                answers.Add(context.Session.GetString(words[1]) ?? "-");
                break;
            case "keys":
                answers.Add(string.Join('+', context.Session.Keys.Order(StringComparer.Ordinal)));
                break;
            case "remove":
                context.Session.Remove(words[1]);
                break;
            case "clear":
                context.Session.Clear();
                break;
            case "id":
                answers.Add(context.Session.Id);
                break;
            case "available":
                answers.Add(context.Session.IsAvailable.ToString());
                break;
            case "renew":
                context.Session.Renew();
                break;
            case "load":
                Task load = context.Session.LoadAsync();
                Interlocked.Increment(ref context.RequestServices.GetRequiredService<Loads>().Begun);
                await load;
                break;
            case "commit":
                await context.Session.CommitAsync();
                break;
            case "forget":
                context.Response.Cookies.Delete(Visitor.CookieName);
                break;
            case "flush":
                await context.Response.StartAsync();
                break;
            case "late":        // as MVC's TempData does
                context.Response.OnStarting(() =>
                {
                    context.Session.SetString(words[1], words[2]);
                    return Task.CompletedTask;
                });
                break;
            case "away":        // without a body: the head is made when everything has ended
                context.Response.Redirect("/");
                break;
            case "meet":
                await context.RequestServices.GetRequiredService<Meeting>().MeetAsync();
                break;
            case "fail":
                throw new InvalidOperationException();
            default:
                throw new NotSupportedException(words[0]);
        }
    }
}

/// <summary>Counts requests that have begun to load their session.</summary>
internal sealed class Loads
{
    public int Begun;
}

/// <summary>Requests wait here for each other.</summary>
internal sealed class Meeting(int size)
{
    private TaskCompletionSource _all = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _there;

    /// <summary>Until somebody is there.</summary>
    public async Task FirstAsync()
    {
        while (Volatile.Read(ref _there) == 0)
        {
            await Task.Delay(1);
        }
    }

    /// <summary>For the next ones.</summary>
    public void Reset() => (_all, _there) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), 0);

    public Task MeetAsync()
    {
        if (Interlocked.Increment(ref _there) == size)
        {
            _all.SetResult();
        }
        return _all.Task;
    }
}

/// <summary>A client that keeps one cookie, as a browser does.</summary>
internal sealed class Visitor(TestSite site)
{
    public const string CookieName = ".AspNetCore.Session";

    /// <summary>The value of the session's cookie; null: none.</summary>
    public string? Cookie { get; set; }

    /// <summary>The Set-Cookie fields of the last answer.</summary>
    public string[] SetCookies { get; private set; } = [];

    public HttpResponseMessage? Last { get; private set; }

    public Visitor Copy() => new(site) { Cookie = Cookie };

    public async Task<string> DoAsync(string steps)
    {
        using var request = new HttpRequestMessage(HttpMethod.Get, "/" + Uri.EscapeDataString(steps));
        if (Cookie is not null)
        {
            request.Headers.TryAddWithoutValidation("Cookie", $"other=1; {CookieName}={Cookie}; last=2");
        }
        Last = await site.Client.SendAsync(request);
        SetCookies = Last.Headers.TryGetValues("Set-Cookie", out IEnumerable<string>? fields) ? [.. fields] : [];
        foreach (string field in SetCookies)
        {
            Cookie = field.Split(';')[0][(CookieName.Length + 1)..];
        }
        return Encoding.UTF8.GetString(await Last.Content.ReadAsByteArrayAsync());
    }
}

/// <summary>What was logged, from Information on.</summary>
internal sealed class LogLines : ILoggerProvider
{
    private readonly List<string> _lines = [];

    public string[] Of(string category)
    {
        lock (_lines)
        {
            return [.. _lines.Where(line => line.StartsWith(category, StringComparison.Ordinal))];
        }
    }

    public ILogger CreateLogger(string categoryName) => new Logger(this, categoryName);

    public void Dispose()
    {
    }

    private sealed class Logger(LogLines lines, string category) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Information;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            lock (lines._lines)
            {
                lines._lines.Add($"{category} {logLevel}: {formatter(state, exception)}");
            }
        }
    }
}
