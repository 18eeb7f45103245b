// An IServer without sockets, threads or protocol: it runs GET /hello again and again through hosting and says what one request allocates.
// That figure is the part of a request's allocations that no server can avoid.
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;

namespace MinimalApp;

internal sealed class HostingOnlyServer(IHostApplicationLifetime lifetime) : IServer
{
    private const int WarmUpRequests = 200_000;
    private const int MeasuredRequests = 100_000;

    public IFeatureCollection Features { get; } = CreateServerFeatures();

    public Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken cancellationToken)
        where TContext : notnull
    {
        var exchange = new ReusedExchange<TContext>();
        Run(application, exchange, WarmUpRequests);
        Thread.Sleep(500); // the compiler's background thread finishes
        Run(application, exchange, WarmUpRequests);
        long before = GC.GetAllocatedBytesForCurrentThread();
        Run(application, exchange, MeasuredRequests);
        long after = GC.GetAllocatedBytesForCurrentThread();
        Console.WriteLine(FormattableString.Invariant($"{(after - before) / (double)MeasuredRequests:F1}"));
        lifetime.StopApplication();
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public void Dispose()
    {
    }

    private static FeatureCollection CreateServerFeatures()
    {
        var features = new FeatureCollection();
        features.Set<IServerAddressesFeature>(new ServerAddressesFeature());
        return features;
    }

    private static void Run<TContext>(IHttpApplication<TContext> application, ReusedExchange<TContext> exchange, int requests)
        where TContext : notnull
    {
        for (int i = 0; i < requests; i++)
        {
            exchange.Reset();
            TContext context = application.CreateContext(exchange);
            Task task = application.ProcessRequestAsync(context);
            if (!task.IsCompletedSuccessfully)
            {
                throw new InvalidOperationException("/hello is expected to finish synchronously.", task.Exception);
            }

            application.DisposeContext(context, exception: null);
        }
    }
}
