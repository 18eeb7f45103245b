// Tests that block a thread of the pool for a while keep none of the others waiting: with two processors it would begin with two threads, and add one or two a second.
using System.Runtime.CompilerServices;

namespace Millrace.Tests;

internal static class ThreadsForAll
{
    private const int Threads = 16;

    [ModuleInitializer]
    internal static void Begin() => ThreadPool.SetMinThreads(Threads, Threads);
}
