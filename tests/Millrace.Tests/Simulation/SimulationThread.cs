// Simulations run on threads of their own: with a deep stack, because blocking is simulated by nesting, and without the
// test runner's synchronization context, which would take continuations out of the simulation's hands.

namespace Millrace.Tests.Simulation;

internal static class SimulationThread
{
    private const int StackSize = 64 * 1024 * 1024;

    public static void Run(Action action) => Run(action, 1);

    /// <summary>Runs the action on as many threads as there are processors.</summary>
    public static void RunAll(Action action) => Run(action, Environment.ProcessorCount);

    private static void Run(Action action, int count)
    {
        Exception? failure = null;
        Thread[] threads = [.. Enumerable.Range(0, count).Select(_ => new Thread(() =>
        {
            try
            {
                action();
            }
            catch (Exception error)
            {
                Interlocked.CompareExchange(ref failure, error, null);
            }
        }, StackSize))];
        Array.ForEach(threads, static thread => thread.UnsafeStart());
        Array.ForEach(threads, static thread => thread.Join());
        if (failure is not null)
        {
            System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw(failure);
        }
    }
}
