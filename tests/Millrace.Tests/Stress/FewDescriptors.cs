// A process that has run out of descriptors, but for a few.

using System.Globalization;
using Microsoft.Win32.SafeHandles;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Stress;

/// <summary>Takes every number below the limit that it sets but so many.</summary>
internal sealed class FewDescriptors : IDisposable
{
    private readonly List<SafeFileHandle> _taken = [];
    private readonly SystemCalls.ResourceLimit _limit;

    public unsafe FewDescriptors(int free)
    {
        int last = Directory.GetFiles("/proc/self/fd").Max(static name => int.Parse(Path.GetFileName(name), CultureInfo.InvariantCulture));
        do
        {
            _taken.Add(File.OpenHandle("/dev/null"));
        }
        while ((int)_taken[^1].DangerousGetHandle() <= last);

        SystemCalls.ResourceLimit limit;
        Assert.Equal(0, SystemCalls.GetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
        _limit = limit;
        limit.Soft = (ulong)((int)_taken[^1].DangerousGetHandle() + 1 + free);
        Assert.Equal(0, SystemCalls.SetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
    }

    public unsafe void Dispose()
    {
        SystemCalls.ResourceLimit limit = _limit;
        Assert.Equal(0, SystemCalls.SetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit));
        _taken.ForEach(static handle => handle.Dispose());
    }
}
