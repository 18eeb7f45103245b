// Every message of a pool: one catalogue. A message says what happened, where, and what to do.

using Microsoft.Extensions.Logging;

namespace Millrace.Workers;

internal sealed partial class Log(ILogger logger, string pool)
{
    private readonly ILogger _logger = logger;
    private readonly string _pool = pool;

    public void Started(int worker, int generation) => Started(_pool, worker, generation);

    public void Ended(int worker, WorkerEnd reason, long calls) => Ended(_pool, worker, reason, calls);

    public void StartFailed(Exception error, int worker, double seconds) => StartFailed(error, _pool, worker, seconds);

    public void GivenUp(int worker, WorkerEnd reason, string call, double seconds, string facts) => GivenUp(_pool, worker, reason, call, seconds, facts);

    public void StuckReturned(int worker, double seconds) => StuckReturned(_pool, worker, seconds);

    public void StuckMax(int count, int max) => StuckMax(_pool, count, max);

    public void StuckAt(Exception stack, int worker) => StuckAt(stack, _pool, worker);

    public void DisposeFailed(Exception error, int worker) => DisposeFailed(error, _pool, worker);

    public void LeftBehindThrew(Exception error, int worker) => LeftBehindThrew(error, _pool, worker);

    public void LeftBehindDropped(int worker) => LeftBehindDropped(_pool, worker);

    public void IsHeld() => IsHeld(_pool);

    public void IsReleased() => IsReleased(_pool);

    public void Swapped(int generation) => Swapped(_pool, generation);

    public void Cut(int count) => Cut(_pool, count);

    public void Killed(int worker, WorkerEnd reason, string call, double seconds, string facts) => Killed(_pool, worker, reason, call, seconds, facts);

    public void Died(int worker, WorkerEnd reason, int? process, string cause) => Died(_pool, worker, reason, process, cause);

    public void Printed(int process, string line) => Printed(_pool, process, line);

    public void ProcessGivenUp(int process, string why, string facts) => ProcessGivenUp(_pool, process, why, facts);

    public void HadToBeKilled(int process, double seconds) => HadToBeKilled(_pool, process, seconds);

    public void StuckFailed(Exception error, int worker) => StuckFailed(error, _pool, worker);

    [LoggerMessage(1, LogLevel.Debug, "Pool {Pool}: worker {Worker} of generation {Generation} is ready.")]
    private partial void Started(string pool, int worker, int generation);

    [LoggerMessage(2, LogLevel.Debug, "Pool {Pool}: worker {Worker} has ended after {Calls} calls: {Reason}.")]
    private partial void Ended(string pool, int worker, WorkerEnd reason, long calls);

    [LoggerMessage(3, LogLevel.Error, "Pool {Pool}: worker {Worker} could not be made. The next try is in {Seconds:0.###} s.")]
    private partial void StartFailed(Exception error, string pool, int worker, double seconds);

    [LoggerMessage(4, LogLevel.Error, "Pool {Pool}: worker {Worker} has been given up ({Reason}) after {Seconds:0.###} s with {Call}; another takes its place. {Facts} Its managed stack: dotnet-stack report -p PID.")]
    private partial void GivenUp(string pool, int worker, WorkerEnd reason, string call, double seconds, string facts);

    [LoggerMessage(5, LogLevel.Warning, "Pool {Pool}: worker {Worker}, which had been given up, has come back after another {Seconds:0.###} s and has ended.")]
    private partial void StuckReturned(string pool, int worker, double seconds);

    [LoggerMessage(6, LogLevel.Critical, "Pool {Pool}: {Count} workers are stuck, and StuckMax is {Max}: what gets stuck now is not replaced any more, and calls wait for those that are left. Only a restart of the process frees stuck threads.")]
    private partial void StuckMax(string pool, int count, int max);

    [LoggerMessage(7, LogLevel.Error, "Pool {Pool}: this is where worker {Worker} was stuck (InterruptStuck).")]
    private partial void StuckAt(Exception stack, string pool, int worker);

    [LoggerMessage(8, LogLevel.Warning, "Pool {Pool}: the disposing of worker {Worker} has failed.")]
    private partial void DisposeFailed(Exception error, string pool, int worker);

    [LoggerMessage(9, LogLevel.Error, "Pool {Pool}: something that a call has left behind at worker {Worker} has thrown (an async void method?). A fresh worker takes its place.")]
    private partial void LeftBehindThrew(Exception error, string pool, int worker);

    [LoggerMessage(10, LogLevel.Warning, "Pool {Pool}: something that a call has left behind at worker {Worker} wanted to go on there, but the worker has ended: it was dropped.")]
    private partial void LeftBehindDropped(string pool, int worker);

    [LoggerMessage(11, LogLevel.Information, "Pool {Pool} is held: calls wait until it is released.")]
    private partial void IsHeld(string pool);

    [LoggerMessage(12, LogLevel.Information, "Pool {Pool} is released.")]
    private partial void IsReleased(string pool);

    [LoggerMessage(13, LogLevel.Information, "Pool {Pool}: the first worker of generation {Generation} is ready; those of the one before end as they become free.")]
    private partial void Swapped(string pool, int generation);

    [LoggerMessage(14, LogLevel.Warning, "Pool {Pool} has ended; {Count} calls that waited or ran were cut (DrainLimit).")]
    private partial void Cut(string pool, int count);

    [LoggerMessage(15, LogLevel.Error, "Pool {Pool}: worker {Worker} has been killed ({Reason}) after {Seconds:0.###} s with {Call}; another takes its place. {Facts}")]
    private partial void Killed(string pool, int worker, WorkerEnd reason, string call, double seconds, string facts);

    [LoggerMessage(16, LogLevel.Warning, "Pool {Pool}: worker {Worker} has died ({Reason}), process {Process}: {Cause} Another takes its place.")]
    private partial void Died(string pool, int worker, WorkerEnd reason, int? process, string cause);

    [LoggerMessage(17, LogLevel.Information, "Pool {Pool}: process {Process}: {Line}")]
    private partial void Printed(string pool, int process, string line);

    [LoggerMessage(18, LogLevel.Warning, "Pool {Pool}: process {Process} has not ended within {Seconds:0.###} s of SIGTERM (StopLimit), and has been killed.")]
    private partial void HadToBeKilled(string pool, int process, double seconds);

    [LoggerMessage(19, LogLevel.Error, "Pool {Pool}: process {Process} has been killed: {Why}. Another takes its place. {Facts}")]
    private partial void ProcessGivenUp(string pool, int process, string why, string facts);

    [LoggerMessage(20, LogLevel.Warning, "`millrace pool` cannot ask this process: {Why}")]
    public static partial void NoControl(ILogger logger, string why);

    [LoggerMessage(21, LogLevel.Error, "Pool {Pool}: worker {Worker}, which had been given up, could not have been made.")]
    private partial void StuckFailed(Exception error, string pool, int worker);
}
