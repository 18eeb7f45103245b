// Namespaces every file uses, and the rule for the runner: three tests at most run at the same time.
global using Xunit;

[assembly: CollectionBehavior(typeof(Millrace.Interop.ThreeLines), MaxParallelThreads = 3)]
