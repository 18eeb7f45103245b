// What the metadata of assemblies tells of their code: whether it names Thread.Interrupt, starts threads or processes, or gives
// threads a scheduling policy.

using System.Diagnostics;
using System.Reflection;
using System.Runtime.Loader;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed class CodeWatchTests
{
    [Fact]
    public void Names_are_found_in_an_assembly_that_uses_them_and_in_no_other()
    {
        Assert.Equal(new CodeWatch.Names(Interrupt: true, Change: true, Start: true), CodeWatch.NamesIn(typeof(CodeWatchTests).Assembly));
        Assert.Equal(new CodeWatch.Names(Interrupt: false, Change: false, Start: false), CodeWatch.NamesIn(typeof(Millrace.Protocols.Http1.Http1Head).Assembly));
    }

    // They have such names, and call nothing of it on a thread that runs handlers.
    [Fact]
    public void The_server_and_the_shared_frameworks_are_no_users_of_threads()
    {
        IEnumerable<Assembly> frameworks = AppDomain.CurrentDomain.GetAssemblies().Where(static assembly =>
            !assembly.IsDynamic && assembly.Location.Contains("/shared/Microsoft.", StringComparison.Ordinal) && assembly != typeof(Process).Assembly);
        var watch = new CodeWatch([typeof(MillraceServer).Assembly, .. frameworks]);
        Assert.False(watch.MayInterrupt);
        Assert.False(watch.MayChange);
        Assert.False(watch.MayStart);
    }

    [Fact]
    public void Child_processes_need_the_assembly_that_starts_them()
    {
        var watch = new CodeWatch([typeof(Process).Assembly]);
        Assert.True(watch.MayStart);
        Assert.False(watch.MayInterrupt);
    }

    [Fact]
    public void An_assembly_that_is_loaded_later_is_seen_before_its_code_runs()
    {
        var watch = new CodeWatch([]);
        using var stream = new MemoryStream(File.ReadAllBytes(typeof(CodeWatchTests).Assembly.Location));
        _ = new AssemblyLoadContext("loaded later", isCollectible: true).LoadFromStream(stream);
        Assert.True(watch.MayInterrupt);
        Assert.True(watch.MayChange);
        Assert.True(watch.MayStart);
    }
}
