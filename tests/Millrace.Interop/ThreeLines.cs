// Three lines of tests: what starts `millrace serve`, what starts other processes, and what stands behind web servers. Within a line tests run
// one after the other, since they measure time and share two cores with the processes that they start; three, since each waits a third of its time.

using Xunit.v3;

namespace Millrace.Interop;

internal sealed class ThreeLines(IXunitTestAssembly assembly) : TestCollectionFactoryBase(assembly)
{
    private readonly XunitTestCollection _daemons = Collection(assembly, "Daemons");
    private readonly XunitTestCollection _processes = Collection(assembly, "Processes");
    private readonly XunitTestCollection _frontEnds = Collection(assembly, "Web servers");

    public override string DisplayName => "three lines";

    protected override IXunitTestCollection GetDefaultTestCollection(Type testClass) => testClass.Namespace switch
    {
        "Millrace.Interop.Command" when testClass == typeof(Command.ServeTests) => _daemons,
        "Millrace.Interop.Command" when !typeof(Command.PrintedBlockTests).IsAssignableFrom(testClass) => _processes,
        "Millrace.Interop.Programs" or "Millrace.Interop.Packages" or "Millrace.Interop.Sessions" => _processes,
        _ => _frontEnds,
    };

    private static XunitTestCollection Collection(IXunitTestAssembly assembly, string name) => new(assembly, collectionDefinition: null, disableParallelization: false, displayName: name);
}
