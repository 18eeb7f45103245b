// The two faces a handler may have, each as what a server runs: the plain API, and an ASP.NET Core application that is one
// delegate over HttpContext without any middleware.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.AspNetCore;
using Millrace.Exchanges;
using Millrace.Handlers;

namespace Millrace.Tests.Behaviour;

internal static class HandlerFaces
{
    public static RequestHandler Plain(Func<Call, ValueTask> handler) => new DelegateHandler((request, response) => handler(new PlainCall(request, response)));

    public static RequestHandler Hosted(Func<Call, ValueTask> handler) => Hosted(context => handler(new HostedCall(context)).AsTask());

    public static RequestHandler Hosted(Func<HttpContext, Task> handler) => new HostedHandler<HttpContext>(new OneDelegate(handler), NullLogger.Instance);

    /// <summary>Key of an action among the items of a context: what is done when the hosting layer disposes of it.</summary>
    public const string AtDisposal = "at disposal";

    private sealed class OneDelegate(Func<HttpContext, Task> handler) : IHttpApplication<HttpContext>
    {
        public HttpContext CreateContext(IFeatureCollection contextFeatures) => new DefaultHttpContext(contextFeatures);

        public Task ProcessRequestAsync(HttpContext context) => handler(context);

        public void DisposeContext(HttpContext context, Exception? exception)
        {
            if (context.Items.TryGetValue(AtDisposal, out object? action))
            {
                ((Action)action!)();
            }
        }
    }
}
