// One app, built with each kind of host there is; the first argument names the kind. Its only page tells what the app sees
// of the way it was started. It asks for addresses of its own, as many apps do. It knows nothing of Millrace.

using Microsoft.AspNetCore;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.TestHost;

[assembly: HostingStartup(typeof(HostKinds.OwnStartup))]

string kind = args.Length > 0 ? args[0] : "";
const string OwnAddress = "http://127.0.0.1:1";
switch (kind)
{
    case "WebApplication":
        await RunAsync(WebApplication.CreateBuilder(args).Build());
        break;
    case "Slim":
        await RunAsync(WebApplication.CreateSlimBuilder(args).Build());
        break;
    case "Empty":
        var empty = WebApplication.CreateEmptyBuilder(new WebApplicationOptions { Args = args });
        empty.WebHost.UseKestrelCore();
        await RunAsync(empty.Build());
        break;
    case "Generic":
        await Host.CreateDefaultBuilder(args).ConfigureWebHostDefaults(web => web.UseUrls(OwnAddress).Configure(app => app.Run(Page))).Build().RunAsync();
        break;
    case "Legacy":
        await WebHost.CreateDefaultBuilder(args).UseUrls(OwnAddress).Configure(app => app.Run(Page)).Build().RunAsync();
        break;
    case "Bare":
        await new WebHostBuilder().UseKestrel().UseUrls(OwnAddress).Configure(app => app.Run(Page)).Build().RunAsync();
        break;
    case "Prevented":
        await new WebHostBuilder().UseKestrel().UseUrls(OwnAddress).UseSetting(WebHostDefaults.PreventHostingStartupKey, "true").Configure(app => app.Run(Page)).Build().RunAsync();
        break;
    case "Limits":
        await Host.CreateDefaultBuilder(args).ConfigureWebHostDefaults(web => web.Configure(app => app.Run(Page)).UseKestrel(kestrel =>
        {
            kestrel.AllowSynchronousIO = true;
            kestrel.Limits.MaxRequestLineSize = 100;
            kestrel.DisableStringReuse = true;
        })).Build().RunAsync();
        break;
    case "Two":
        var main = WebApplication.CreateSlimBuilder(args).Build();
        main.Urls.Add(OwnAddress);
        main.Run(Page);
        await main.StartAsync();
        var metrics = WebApplication.CreateSlimBuilder([]).Build();
        metrics.Urls.Add("http://127.0.0.1:0");
        metrics.Run(context => context.Response.WriteAsync("metrics"));
        await metrics.StartAsync();
        Console.WriteLine("metrics: " + metrics.Urls.Single());
        await main.WaitForShutdownAsync();
        await metrics.StopAsync();
        break;
    case "InProcess":
        // As with UseTestServer, and with new TestServer(builder).
        using (IHost inner = Host.CreateDefaultBuilder().ConfigureWebHostDefaults(web => web.ConfigureServices(services => services.AddSingleton<IServer, TestServer>()).Configure(app => app.Run(Page))).Build())
        {
            await inner.StartAsync();
            using IWebHost legacy = new WebHostBuilder().UseServer(new TestServer()).Configure(app => app.Run(Page)).Build();
            await legacy.StartAsync();
            Console.WriteLine("servers: " + inner.Services.GetRequiredService<IServer>().GetType().Name + " " + legacy.Services.GetRequiredService<IServer>().GetType().Name);
            await RunAsync(WebApplication.CreateBuilder(args).Build());
        }
        break;
    case "Served":
        return await HostKinds.Served.RunAsync(args);
    case "Worker":
        await Host.CreateApplicationBuilder(args).Build().StartAsync();
        return 7;
    default:
        await Console.Error.WriteLineAsync("Name a kind of host.");
        return 64;
}
return 0;

Task RunAsync(WebApplication app)
{
    app.Urls.Add(OwnAddress);
    app.Run(Page);
    return app.RunAsync();
}

Task Page(HttpContext context) => context.Request.Path == "/startups" ? Startups(context) : context.Response.WriteAsync(
    $"kind={kind} environment={Environment.GetEnvironmentVariable("ASPNETCORE_ENVIRONMENT")} hooks={Environment.GetEnvironmentVariable("DOTNET_STARTUP_HOOKS")} "
    + $"hosting={Environment.GetEnvironmentVariable("ASPNETCORE_HOSTINGSTARTUPASSEMBLIES")} urls={Environment.GetEnvironmentVariable("ASPNETCORE_URLS")} arguments={string.Join(',', args)}");

// Written synchronously where it may be.
Task Startups(HttpContext context)
{
    context.Response.Body.Write(System.Text.Encoding.ASCII.GetBytes(
        $"prevent={Environment.GetEnvironmentVariable("ASPNETCORE_PREVENTHOSTINGSTARTUP")} assemblies={Environment.GetEnvironmentVariable("ASPNETCORE_HOSTINGSTARTUPASSEMBLIES")} "
        + $"excluded={Environment.GetEnvironmentVariable("ASPNETCORE_HOSTINGSTARTUPEXCLUDEASSEMBLIES")} own={HostKinds.OwnStartup.HasRun}"));
    return Task.CompletedTask;
}
