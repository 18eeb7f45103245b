// Namespaces every file uses, and the one rule for the runner: the tests measure time and share two cores with a web
// server, so classes run one after the other.
global using Xunit;

[assembly: CollectionBehavior(DisableTestParallelization = true)]
