// An application that has FastCGI programs answer, for bench/run pools: by the connector at an address, and from a pool of processes of its own. It is not a sample.
//
// usage: PoolApp ADDRESS SITE FLOOR FPM CGI WORKERS      (SITE is a folder of scripts; the others are addresses of programs)
using System.Globalization;
using Millrace.Connector;
using Millrace.Workers;

WebApplicationBuilder builder = WebApplication.CreateBuilder();
builder.Logging.SetMinimumLevel(LogLevel.Warning);
builder.WebHost.UseMillrace();
WebApplication app = builder.Build();
app.Urls.Add(args[0]);
int workers = int.Parse(args[5], CultureInfo.InvariantCulture);
await using var php = new ProcessPool(new ProcessPoolOptions { Command = "php-cgi", Arguments = { "-n" }, Min = workers, Max = workers }, app.Services.GetRequiredService<ILoggerFactory>());

app.MapGet("/hello", () => "Hello, World!");
app.MapFastCgi("/floor/{**path}", args[2], options => options.KeepConnections = true);
app.MapFastCgi("/fpm/{**path}", args[3], options => options.Root = args[1]);
app.MapFastCgi("/cgi/{**path}", args[4], options => options.Root = args[1]);
app.MapFastCgi("/pool/{**path}", php, options => options.Root = args[1]);
await php.WaitUntilReadyAsync();
app.Run();
