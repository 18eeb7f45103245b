using Millrace.Protocols;

namespace Millrace.Tests;

public sealed class LayerTests
{
    [Fact]
    public void Protocols_reference_only_the_core_framework()
    {
        var names = typeof(ReadResult).Assembly.GetReferencedAssemblies().Select(a => a.Name!).ToList();
        Assert.DoesNotContain(names, n => n.StartsWith("Microsoft.", StringComparison.Ordinal) || n.Contains("Sockets", StringComparison.Ordinal));
    }
}
