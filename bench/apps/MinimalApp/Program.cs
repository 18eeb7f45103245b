// One ASP.NET Core application for every server that is measured: only the server under it changes.
// It is not a sample: its endpoints exist to be loaded by bench/run.
//
// usage: MinimalApp millrace|kestrel|kestrel-tuned|hosting ADDRESSES      (addresses separated by ';', without a meaning for `hosting`)
//   kestrel-tuned   Kestrel with requests run on the socket's own thread; the environment variables that go with it are set by bench/run
//   hosting         no server at all: prints what hosting and the endpoint allocate by themselves for one request, and ends
//
// Logging is what `dotnet new web` configures for Microsoft.AspNetCore: Warning, to the console. It is the same for all servers.
using System.Diagnostics;
using MinimalApp;

string server = args[0];
WebApplicationBuilder builder = WebApplication.CreateBuilder();
builder.Logging.SetMinimumLevel(LogLevel.Warning);
switch (server)
{
    case "millrace":
        builder.WebHost.UseMillrace();
        break;
    case "kestrel":
        break;
    case "kestrel-tuned":
        builder.WebHost.UseSockets(options => options.UnsafePreferInlineScheduling = true);
        break;
    case "hosting":
        builder.Services.AddSingleton<Microsoft.AspNetCore.Hosting.Server.IServer, HostingOnlyServer>();
        break;
    default:
        Console.Error.WriteLine($"'{server}' is none of millrace, kestrel, kestrel-tuned, hosting");
        return 2;
}

WebApplication app = builder.Build();
if (args.Length > 1)
{
    foreach (string address in args[1].Split(';'))
    {
        app.Urls.Add(address);
    }
}

long mixed = 0;
List<byte[]> leaked = [];
byte[] plaintext = "Hello, World!"u8.ToArray();
byte[] block = new byte[64 * 1024];

app.MapGet("/hello", () => "Hello, World!");
app.MapGet("/json", () => new Message("Hello, World!"));
app.MapGet("/plaintext", (HttpContext context) =>
{
    context.Response.ContentType = "text/plain";
    context.Response.ContentLength = plaintext.Length;
    return context.Response.Body.WriteAsync(plaintext).AsTask();
});
app.MapGet("/sleep", (int ms) =>
{
    Thread.Sleep(ms);
    return "Hello, slept";
});
// Every `every`-th request sleeps, by counter: the same share in every run.
app.MapGet("/mix", (int every, int ms) =>
{
    if (Interlocked.Increment(ref mixed) % every == 0)
    {
        Thread.Sleep(ms);
    }

    return "Hello, mixed";
});
app.MapGet("/delay", async (int ms) =>
{
    await Task.Delay(ms);
    return "Hello, delayed";
});
app.MapGet("/spin", (int us) =>
{
    long end = Stopwatch.GetTimestamp() + (long)us * Stopwatch.Frequency / 1_000_000;
    while (Stopwatch.GetTimestamp() < end)
    {
    }

    return "Hello, computed";
});
app.MapPost("/upload", async (HttpContext context) =>
{
    byte[] buffer = new byte[block.Length];
    long length = 0;
    int read;
    while ((read = await context.Request.Body.ReadAsync(buffer, context.RequestAborted)) > 0)
    {
        length += read;
    }

    return $"Hello, {length}";
});
app.MapGet("/download", async (HttpContext context, int mb) =>
{
    long length = mb * 1024L * 1024;
    context.Response.ContentType = "application/octet-stream";
    context.Response.ContentLength = length;
    for (long written = 0; written < length; written += block.Length)
    {
        await context.Response.Body.WriteAsync(block, context.RequestAborted);
    }
});
app.MapGet("/crash", () => Environment.FailFast("asked to"));
app.MapGet("/leak", (int mb) =>
{
    byte[] part = GC.AllocateUninitializedArray<byte>(mb << 20);
    Array.Fill(part, (byte)1);      // resident
    lock (leaked)
    {
        leaked.Add(part);
        return $"Hello, {leaked.Count}";
    }
});
app.MapGet("/heap", () => GC.GetTotalMemory(forceFullCollection: true).ToString(System.Globalization.CultureInfo.InvariantCulture));
app.MapGet("/alloc", () => GC.GetTotalAllocatedBytes(precise: true).ToString(System.Globalization.CultureInfo.InvariantCulture));

await app.RunAsync();
return 0;

internal sealed record Message(string Text);
