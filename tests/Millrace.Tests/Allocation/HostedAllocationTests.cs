// A request to a minimal API over Millrace allocates what hosting and the endpoint themselves do, and the objects that an
// application may keep: its HttpContext, features, header collections and writer are made for it alone.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Allocation;

[Collection(AloneCollection.Name)]
public sealed class HostedAllocationTests(ITestOutputHelper output) : IDisposable
{
    private const int WarmUp = 5_000;
    private const int Measured = 5_000;

    /// <summary>Bytes that the safety of what an application keeps may cost a request.</summary>
    private const int SafetyMax = 1536;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("fastcgi", "/hello")]
    [InlineData("fastcgi", "/json")]
    [InlineData("fastcgi", "/services")]
    [InlineData("http", "/hello")]
    [InlineData("http", "/json")]
    [InlineData("http", "/services")]
    public async Task MapGet_allocates_at_most_one_and_a_half_KiB_more_than_hosting_itself(string scheme, string path)
    {
        double hosting = await MeasureHosting(path);
        double millrace = await MeasureMillrace(scheme, path);
        output.WriteLine($"{scheme} {path}: {millrace:F1} bytes per request, hosting alone {hosting:F1}");
        Assert.True(millrace <= hosting + SafetyMax, $"{millrace:F1} bytes per request, hosting alone {hosting:F1}");
    }

    private static async Task<double> MeasureHosting(string path)
    {
        var allocation = new ThreadAllocation(WarmUp, Measured);
        await using WebApplication app = Build(allocation, static builder =>
        {
            builder.Services.RemoveAll<IServer>();
            builder.Services.AddSingleton<IServer, NothingServer>();
        });
        await app.StartAsync();
        var server = (NothingServer)app.Services.GetRequiredService<IServer>();
        var thread = ClientThreads.Start(1, _ =>
        {
            ThreadAllocation.Forget();
            for (int i = 0; i < allocation.Requests; i++)
            {
                server.Run(path);
            }
        });
        thread.Join();
        return allocation.BytesPerRequest;
    }

    private async Task<double> MeasureMillrace(string scheme, string path)
    {
        var allocation = new ThreadAllocation(WarmUp, Measured);
        await using WebApplication app = Build(allocation, static builder => builder.WebHost.UseMillrace(static options =>
        {
            options.Loops = 1;
            options.Dispatch = DispatchMode.Inline;
        }));
        app.Urls.Add(_folder.NewAddress(scheme));
        await app.StartAsync();
        using KeptConnection connection = KeptConnection.Open(app.Urls.Single(), path);
        for (int i = 0; i < allocation.Requests; i++)
        {
            Assert.Equal(200, connection.Ask().Status);
        }

        Assert.InRange(allocation.Counted, Measured - 50, Measured);
        return allocation.BytesPerRequest;
    }

    private static WebApplication Build(ThreadAllocation allocation, Action<WebApplicationBuilder> server)
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        server(builder);
        WebApplication app = builder.Build();
        app.MapGet("/hello", () =>
        {
            allocation.Note();
            return "Hello, World!";
        });
        app.MapGet("/json", () =>
        {
            allocation.Note();
            return new Greeting("Hello, World!");
        });
        app.MapGet("/services", (HttpContext context) =>
        {
            allocation.Note();
            return context.RequestServices.GetService<IServer>() is null ? "none" : "one";
        });
        return app;
    }

    private sealed record Greeting(string Text);
}
