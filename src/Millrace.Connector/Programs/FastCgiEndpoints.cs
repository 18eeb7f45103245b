// PHP, or any FastCGI program, as an endpoint of an ASP.NET Core application, on any server.

using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.Routing.Patterns;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Workers;

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
        ArgumentException.ThrowIfNullOrEmpty(address);
        EndPoint endPoint = Parse(address);
        return Map(endpoints, pattern, configure, (options, rest, logger) => new FastCgiProgram(endPoint, options, rest, logger));
    }

    /// <summary>Has the processes of a pool answer the requests below a path, each one at a time. A request that a process could not answer because it has died goes to another one, once, if nothing of it
    /// had been sent, or if it may be sent twice (RFC 9110 §9.2.2: GET, HEAD, OPTIONS).</summary>
    /// <param name="endpoints">Where to.</param>
    /// <param name="pattern">Such as <c>/blog/{**path}</c>. What the last parameter holds is looked for below <see cref="FastCgiProgramOptions.Root"/>.</param>
    /// <param name="processes">The pool. It is not disposed of with the application.</param>
    /// <param name="configure">Sets options. Those of connections mean nothing here.</param>
    /// <returns>For what endpoints can have, such as <c>RequireAuthorization</c>.</returns>
    /// <exception cref="ArgumentException">The pattern has no such parameter, or an option is out of its range.</exception>
    public static IEndpointConventionBuilder MapFastCgi(this IEndpointRouteBuilder endpoints, string pattern, ProcessPool processes, Action<FastCgiProgramOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(processes);
        return Map(endpoints, pattern, configure, (options, rest, logger) => new FastCgiProgram(processes, options, rest, logger));
    }

    private static IEndpointConventionBuilder Map(
        IEndpointRouteBuilder endpoints, string pattern, Action<FastCgiProgramOptions>? configure, Func<FastCgiProgramOptions, string, ILogger, FastCgiProgram> make)
    {
        ArgumentNullException.ThrowIfNull(endpoints);
        ArgumentException.ThrowIfNullOrEmpty(pattern);
        var options = new FastCgiProgramOptions();
        configure?.Invoke(options);
        if (options.Validate() is { Count: > 0 } faults)
        {
            throw new ArgumentException(string.Join(" ", faults), nameof(configure));
        }
        RoutePatternParameterPart? rest = RoutePatternFactory.Parse(pattern).Parameters.LastOrDefault(static parameter => parameter.IsCatchAll)
            ?? throw new ArgumentException($"{pattern} has no parameter that takes all the rest, such as /blog/{{**path}}.", nameof(pattern));
        FastCgiProgram program = make(options, rest.Name, endpoints.ServiceProvider.GetRequiredService<ILoggerFactory>().CreateLogger("Millrace.Connector"));
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
