// What tests over all four ways begin with.

namespace Millrace.Tests.Behaviour.Shared;

public abstract class SharedTests(Way way)
{
    private protected Way Way => way;

    private protected bool IsHttp => way is Way.HttpToPlain or Way.HttpToHosted;

    private protected void Run(Func<Call, ValueTask> handler, Action<SharedBench> test, Action<MillraceOptions>? options = null, string parameters = "") =>
        SharedBench.Run(way, handler, test, options, parameters);

    private protected void RunOverUnix(Func<Call, ValueTask> handler, Action<SharedBench> test, Action<MillraceOptions>? options = null) =>
        SharedBench.Run(way, handler, test, options, place: "unix:/run/simulated.sock");

    /// <summary>With the handler that says what it was asked.</summary>
    private protected void Run(Action<SharedBench> test, Action<MillraceOptions>? options = null) => Run(Call.Echo, test, options);

    /// <summary>A handler that ends at once.</summary>
    private protected static Func<Call, ValueTask> AtOnce(Action<Call> handler) => call =>
    {
        handler(call);
        return default;
    };

    /// <summary>One GET (or another method) on a new connection, to a handler that ends at once.</summary>
    private protected void Answers(Action<Call> handler, Action<SharedBench, Caller> check, string method = "GET") => Run(
        AtOnce(handler),
        bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/", method));
            check(bench, caller);
        });
}
