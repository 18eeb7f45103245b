// Namespaces every file uses, and the one rule for the runner: a browser and a load generator share two cores with the
// server, so classes run one after the other. The site is started once for all of them.
global using Xunit;

[assembly: CollectionBehavior(DisableTestParallelization = true)]
[assembly: AssemblyFixture(typeof(Millrace.Browser.Site.SiteServer))]
