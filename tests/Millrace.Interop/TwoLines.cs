// What starts the command and waits for its processes runs beside what stands behind web servers; within either of the two, tests
// run one after the other, since they measure time and share two cores with the processes that they start.

using Xunit.v3;

namespace Millrace.Interop;

internal sealed class TwoLines(IXunitTestAssembly assembly) : TestCollectionFactoryBase(assembly)
{
    private readonly XunitTestCollection _processes = Collection(assembly, "Processes");
    private readonly XunitTestCollection _frontEnds = Collection(assembly, "Web servers");

    public override string DisplayName => "two lines";

    protected override IXunitTestCollection GetDefaultTestCollection(Type testClass) =>
        testClass.Namespace is "Millrace.Interop.Command" && !typeof(Command.PrintedBlockTests).IsAssignableFrom(testClass) ? _processes : _frontEnds;

    private static XunitTestCollection Collection(IXunitTestAssembly assembly, string name) => new(assembly, collectionDefinition: null, disableParallelization: false, displayName: name);
}
