// Thread.Interrupt is for a wait of the application's. One that nothing has waited for stays with its thread, and would end the next wait there, which may be the pool's own. The server has the
// same for its own threads (Millrace.Platform: Steady, ThreadTraits), which this package does not know.

namespace Millrace.Workers;

internal static class Interruption
{
    private static readonly ManualResetEvent s_set = new(initialState: true);

    /// <summary>Takes back one that nothing has waited for: the cheapest wait that asks for one, for what is there already.</summary>
    /// <returns>Whether there was one.</returns>
    public static bool Forget()
    {
        try
        {
            _ = s_set.WaitOne(0);
            return false;
        }
        catch (ThreadInterruptedException)
        {
            return true;
        }
    }

    /// <summary>Takes a lock, whatever interrupts that: where a wait for it was interrupted, the next one of the application's is.</summary>
    /// <param name="enter">Waits for the lock, and has done nothing when that is interrupted.</param>
    /// <param name="gate">The lock.</param>
    public static void Outlast<T>(Action<T> enter, T gate)
    {
        bool isInterrupted = false;
        while (true)
        {
            try
            {
                enter(gate);
                break;
            }
            catch (ThreadInterruptedException)
            {
                isInterrupted = true;
            }
        }
        if (isInterrupted)
        {
            Thread.CurrentThread.Interrupt();
        }
    }
}
