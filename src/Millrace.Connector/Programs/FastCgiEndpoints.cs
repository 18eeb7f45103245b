// PHP, or any FastCGI program, as an endpoint of an ASP.NET Core application, on any server.

using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.Routing.Patterns;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Millrace.Connector;

/// <summary>Adds FastCGI programs to an application.</summary>
public static class FastCgiEndpoints
{
    /// <summary>Has a FastCGI program answer the requests below a path.</summary>
    /// <param name="endpoints">Where to.</param>
    /// <param name="pattern">Such as <c>/blog/{**path}</c>. What the last parameter holds is looked for below <see cref="FastCgiProgramOptions.Root"/>.</param>
    /// <param name="address">Where the program listens: <c>unix:/run/php/php8.2-fpm.sock</c> or <c>127.0.0.1:9000</c>.</param>
    /// <param name="configure">Sets options.</param>
    /// <returns>For what endpoints can have, such as <c>RequireAuthorization</c>.</returns>
    /// <exception cref="ArgumentException">The address is none, the pattern has no such parameter, or an option is out of its range.</exception>
    public static IEndpointConventionBuilder MapFastCgi(this IEndpointRouteBuilder endpoints, string pattern, string address, Action<FastCgiProgramOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(endpoints);
        ArgumentException.ThrowIfNullOrEmpty(pattern);
        ArgumentException.ThrowIfNullOrEmpty(address);
        var options = new FastCgiProgramOptions();
        configure?.Invoke(options);
        if (options.Validate() is { Count: > 0 } faults)
        {
            throw new ArgumentException(string.Join(" ", faults), nameof(configure));
        }
        RoutePatternParameterPart? rest = RoutePatternFactory.Parse(pattern).Parameters.LastOrDefault(static parameter => parameter.IsCatchAll)
            ?? throw new ArgumentException($"{pattern} has no parameter that takes all the rest, such as /blog/{{**path}}.", nameof(pattern));
        var logger = endpoints.ServiceProvider.GetRequiredService<ILoggerFactory>().CreateLogger("Millrace.Connector");
        var program = new FastCgiProgram(Parse(address), options, rest.Name, logger);
        _ = endpoints.ServiceProvider.GetService<IHostApplicationLifetime>()?.ApplicationStopped.Register(program.Dispose);
        return endpoints.Map(pattern, program.AnswerAsync).WithDisplayName($"FastCGI {pattern}");
    }

    private static EndPoint Parse(string address)
    {
        string its = address.StartsWith("fastcgi://", StringComparison.OrdinalIgnoreCase) ? address[10..] : address;
        if (its.StartsWith("unix:/", StringComparison.Ordinal))
        {
            return new UnixDomainSocketEndPoint(its[5..]);
        }
        if (IPEndPoint.TryParse(its, out IPEndPoint? ip) && ip.Port > 0)
        {
            return ip;
        }
        throw new ArgumentException($"{address} is no address: unix:/run/php/php8.2-fpm.sock or 127.0.0.1:9000.", nameof(address));
    }
}
