// UseMillraceSession(), which is what UseSession() means in a project that refers to this package: docs/decisions/0026-use-session-stays.md.

using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;
using Millrace.Sessions;

namespace Microsoft.AspNetCore.Builder;

/// <summary>Puts sessions into the pipeline.</summary>
public static class MillraceSessionApplicationBuilderExtensions
{
    /// <summary>From here on requests have a session. The same as <c>UseSession()</c> where that is compiled with this package.</summary>
    /// <param name="app">The pipeline.</param>
    /// <returns>The pipeline.</returns>
    /// <exception cref="InvalidOperationException"><c>AddMillraceSession</c> was not called.</exception>
    /// <exception cref="ArgumentOutOfRangeException">An option is out of its range.</exception>
    public static IApplicationBuilder UseMillraceSession(this IApplicationBuilder app)
    {
        ArgumentNullException.ThrowIfNull(app);
        return app.UseScheme(app.ApplicationServices.GetRequiredService<IOptions<MillraceSessionOptions>>().Value);
    }

    /// <summary>From here on requests have a session with other options for its cookie and times.</summary>
    /// <param name="app">The pipeline.</param>
    /// <param name="options">Cookie, idle time and time for input and output; everything else is as it was set with <c>AddMillraceSession</c>.</param>
    /// <returns>The pipeline.</returns>
    /// <exception cref="InvalidOperationException"><c>AddMillraceSession</c> was not called.</exception>
    /// <exception cref="ArgumentOutOfRangeException">An option is out of its range.</exception>
    public static IApplicationBuilder UseMillraceSession(this IApplicationBuilder app, SessionOptions options)
    {
        ArgumentNullException.ThrowIfNull(app);
        ArgumentNullException.ThrowIfNull(options);
        return app.UseScheme(options as MillraceSessionOptions ?? app.ApplicationServices.GetRequiredService<IOptions<MillraceSessionOptions>>().Value.With(options));
    }

    private static IApplicationBuilder UseScheme(this IApplicationBuilder app, MillraceSessionOptions options)
    {
        SessionServices services = app.ApplicationServices.GetService<SessionServices>() ??
            throw new InvalidOperationException("UseMillraceSession() needs builder.Services.AddMillraceSession().");
        var scheme = new SessionScheme(services, options);
        return app.Use(next => new Millrace.Sessions.SessionMiddleware(next, scheme).Invoke);
    }
}
