// Tests that count threads, descriptors, time or allocations run by themselves, after all others.

namespace Millrace.Tests.Stress;

[CollectionDefinition(Name, DisableParallelization = true)]
[System.Diagnostics.CodeAnalysis.SuppressMessage("Naming", "CA1711", Justification = "It is a collection of tests.")]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
