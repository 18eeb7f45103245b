// app.UseSession() stays as it is in an application that calls AddMillraceSession(). The compiler looks for extension methods in the namespace around a call before it looks into
// those that are imported: one that is in no namespace comes before ASP.NET Core's. Where AddMillraceSession() was not called it does what that does.
// docs/decisions/0026-use-session-stays.md

using System.ComponentModel;
using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Sessions;

/// <summary>Makes <c>UseSession()</c> mean <c>UseMillraceSession()</c> where <c>AddMillraceSession()</c> was called.</summary>
[SuppressMessage("Design", "CA1050:Declare types in namespaces", Justification = "Out of a namespace it comes before the method of the framework.")]
[EditorBrowsable(EditorBrowsableState.Never)]
public static class MillraceUseSession
{
    /// <summary>From here on requests have a session.</summary>
    /// <param name="app">The pipeline.</param>
    /// <returns>The pipeline.</returns>
    public static IApplicationBuilder UseSession(this IApplicationBuilder app)
    {
        ArgumentNullException.ThrowIfNull(app);
        return IsOurs(app) ? app.UseMillraceSession() : SessionMiddlewareExtensions.UseSession(app);
    }

    /// <summary>From here on requests have a session with these options for its cookie and times.</summary>
    /// <param name="app">The pipeline.</param>
    /// <param name="options">The options.</param>
    /// <returns>The pipeline.</returns>
    public static IApplicationBuilder UseSession(this IApplicationBuilder app, SessionOptions options)
    {
        ArgumentNullException.ThrowIfNull(app);
        return IsOurs(app) ? app.UseMillraceSession(options) : SessionMiddlewareExtensions.UseSession(app, options);
    }

    private static bool IsOurs(IApplicationBuilder app) => app.ApplicationServices.GetService<SessionServices>() is not null;
}
