// Registration in a container of services: one pool for each type of worker.

using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.Workers.Control;

namespace Millrace.Workers;

/// <summary>Adds pools to an application.</summary>
public static class WorkerPoolServices
{
    /// <summary>Adds a <see cref="WorkerPool{TWorker}"/> that starts and ends with the host, and is an <see cref="IWorkerPool"/> too. Its options are judged when the host starts, which waits for its first
    /// workers unless <see cref="WorkerPoolOptions.WaitAtStart"/> is false.</summary>
    /// <typeparam name="TWorker">The worker.</typeparam>
    /// <param name="services">Where to.</param>
    /// <param name="factory">Makes a worker; null: with services for its constructor's parameters. Singletons only: no scope is there.</param>
    /// <param name="configure">Sets options.</param>
    /// <returns><paramref name="services"/>.</returns>
    public static IServiceCollection AddWorkerPool<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] TWorker>(
        this IServiceCollection services, Func<IServiceProvider, TWorker>? factory = null, Action<WorkerPoolOptions<TWorker>>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        OptionsBuilder<WorkerPoolOptions<TWorker>> options = services.AddOptions<WorkerPoolOptions<TWorker>>().ValidateOnStart();
        if (configure is not null)
        {
            _ = options.Configure(configure);
        }
        services.TryAddSingleton<IValidateOptions<WorkerPoolOptions<TWorker>>, OptionsJudge<WorkerPoolOptions<TWorker>>>();
        services.TryAddSingleton(provider => new WorkerPool<TWorker>(
            () => factory is not null ? factory(provider) : ActivatorUtilities.CreateInstance<TWorker>(provider),
            provider.GetRequiredService<IOptions<WorkerPoolOptions<TWorker>>>().Value,
            provider.GetService<ILoggerFactory>()));
        _ = services.AddSingleton<IWorkerPool>(static provider => provider.GetRequiredService<WorkerPool<TWorker>>());
        _ = services.AddHostedService<PoolStart<TWorker>>();
        return services;
    }

    /// <summary>Adds a check of the health of the pool of a type of worker.</summary>
    /// <typeparam name="TWorker">The worker.</typeparam>
    /// <param name="builder">Where to.</param>
    /// <param name="name">The check's; null: the name of the worker's type.</param>
    /// <returns><paramref name="builder"/>.</returns>
    public static IHealthChecksBuilder AddWorkerPool<TWorker>(this IHealthChecksBuilder builder, string? name = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.Add(new HealthCheckRegistration(
            name ?? typeof(TWorker).Name,
            static provider => new WorkerPoolHealthCheck(
                provider.GetRequiredService<WorkerPool<TWorker>>(), provider.GetRequiredService<IOptions<WorkerPoolOptions<TWorker>>>().Value.QueueMax),
            failureStatus: null,
            tags: null));
    }

    /// <summary>Adds a <see cref="ProcessPool"/> that starts and ends with the host. It is a keyed service under its name, and an <see cref="IWorkerPool"/> too; without a key <see cref="ProcessPool"/> is
    /// the last that was added. Its options are judged when the host starts, which waits for its first processes unless <see cref="WorkerPoolOptions.WaitAtStart"/> is false.</summary>
    /// <param name="services">Where to.</param>
    /// <param name="name">The pool's. Its options are those of this name.</param>
    /// <param name="configure">Sets options.</param>
    /// <returns><paramref name="services"/>.</returns>
    public static IServiceCollection AddProcessPool(this IServiceCollection services, string name, Action<ProcessPoolOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(name);
        ArgumentNullException.ThrowIfNull(configure);
        _ = services.AddOptions<ProcessPoolOptions>(name).Configure(options => options.Name = name).Configure(configure).ValidateOnStart();
        services.TryAddSingleton<IValidateOptions<ProcessPoolOptions>, OptionsJudge<ProcessPoolOptions>>();
        _ = services.AddKeyedSingleton(name, static (provider, key) =>
            new ProcessPool(provider.GetRequiredService<IOptionsMonitor<ProcessPoolOptions>>().Get((string)key!), provider.GetService<ILoggerFactory>()));
        _ = services.AddSingleton(provider => provider.GetRequiredKeyedService<ProcessPool>(name));
        _ = services.AddSingleton<IWorkerPool>(provider => provider.GetRequiredKeyedService<ProcessPool>(name));
        _ = services.AddSingleton<IHostedService>(provider => new ProcessPoolStart(
            provider.GetRequiredKeyedService<ProcessPool>(name), provider.GetRequiredService<IOptionsMonitor<ProcessPoolOptions>>().Get(name).WaitAtStart));
        return services;
    }

    /// <summary>Adds a check of the health of a pool of processes.</summary>
    /// <param name="builder">Where to.</param>
    /// <param name="name">The pool's, and the check's.</param>
    /// <returns><paramref name="builder"/>.</returns>
    public static IHealthChecksBuilder AddProcessPool(this IHealthChecksBuilder builder, string name)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentException.ThrowIfNullOrEmpty(name);
        return builder.Add(new HealthCheckRegistration(
            name,
            provider => new WorkerPoolHealthCheck(
                provider.GetRequiredKeyedService<ProcessPool>(name), provider.GetRequiredService<IOptionsMonitor<ProcessPoolOptions>>().Get(name).QueueMax),
            failureStatus: null,
            tags: null));
    }

    /// <summary>Lets `millrace pool` see all pools of this application, and do to them what <see cref="IWorkerPool"/> can: over a Unix socket that nobody but this process's user, and root, can connect to.
    /// Where it cannot be made the log says why, and the application goes on without.</summary>
    /// <param name="services">Where to.</param>
    /// <param name="path">The socket's, in a folder that is there. Null: the number of the process with <c>.sock</c>, where `millrace pool` looks: in <c>/run/millrace-pools</c> for root, else in
    /// <c>$XDG_RUNTIME_DIR/millrace-pools</c>, else in <c>/tmp/millrace-pools-UID</c>.</param>
    /// <returns><paramref name="services"/>.</returns>
    public static IServiceCollection AddPoolControl(this IServiceCollection services, string? path = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        return services.AddSingleton<IHostedService>(provider => new PoolControl(provider.GetServices<IWorkerPool>(), provider, path, provider.GetService<ILoggerFactory>()));
    }

    private sealed class ProcessPoolStart(ProcessPool pool, bool waits) : IHostedService
    {
        public Task StartAsync(CancellationToken cancellationToken) => waits ? pool.WaitUntilReadyAsync(cancellationToken) : Task.CompletedTask;

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }

    private sealed class OptionsJudge<TOptions> : IValidateOptions<TOptions>
        where TOptions : WorkerPoolOptions
    {
        public ValidateOptionsResult Validate(string? name, TOptions options) =>
            options.Validate() is { Count: > 0 } faults ? ValidateOptionsResult.Fail(faults) : ValidateOptionsResult.Success;
    }

    // The container disposes of the pool, and waits for it, when the host has stopped.
    private sealed class PoolStart<TWorker>(WorkerPool<TWorker> pool, IOptions<WorkerPoolOptions<TWorker>> options) : IHostedService
    {
        public Task StartAsync(CancellationToken cancellationToken) => options.Value.WaitAtStart ? pool.WaitUntilReadyAsync(cancellationToken) : Task.CompletedTask;

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }
}
