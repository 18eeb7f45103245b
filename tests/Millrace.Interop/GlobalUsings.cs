// Namespaces every file uses, and the rule for the runner: two tests at most run at the same time.
global using Xunit;

[assembly: CollectionBehavior(typeof(Millrace.Interop.TwoLines), MaxParallelThreads = 2)]
