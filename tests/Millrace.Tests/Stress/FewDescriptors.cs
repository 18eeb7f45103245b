// A process that has run out of descriptors, but for a few.

using System.Globalization;
using Millrace.Platform;

namespace Millrace.Tests.Stress;

/// <summary>Takes every number but so many: all that the system allows, so that a server that raises the limit gains nothing. Where those
/// are too many, all below a limit that it sets.</summary>
internal sealed class FewDescriptors : IDisposable
{
    private const int TakenMax = 65_536;

    private readonly Stack<int> _taken = new();
    private readonly SystemCalls.ResourceLimit _limit;

    public unsafe FewDescriptors(int free)
    {
        SystemCalls.ResourceLimit limit;
        Assert.Equal(0, SystemCalls.GetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
        _limit = limit;
        int last = Directory.GetFiles("/proc/self/fd").Max(static name => int.Parse(Path.GetFileName(name), CultureInfo.InvariantCulture));
        limit.Soft = limit.Hard <= TakenMax ? limit.Hard : (ulong)(last + 1 + free);
        Assert.Equal(0, SystemCalls.SetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
        for (int taken; (taken = SystemCalls.Fcntl(0, SystemCalls.F_DUPFD_CLOEXEC, 0)) >= 0;)
        {
            _taken.Push(taken);
        }

        Assert.Equal(SystemCalls.EMFILE, SystemCalls.Errno);
        for (int i = 0; i < free; i++)
        {
            _ = SystemCalls.Close(_taken.Pop());
        }
    }

    public unsafe void Dispose()
    {
        SystemCalls.ResourceLimit limit = _limit;
        Assert.Equal(0, SystemCalls.SetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
        while (_taken.TryPop(out int taken))
        {
            _ = SystemCalls.Close(taken);
        }
    }
}
