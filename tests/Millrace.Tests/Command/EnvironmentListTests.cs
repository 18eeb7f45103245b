// The start-up hook takes its own entries out of the environment, and only those.

using Millrace.StartupHooks;

namespace Millrace.Tests.Command;

public sealed class EnvironmentListTests : IDisposable
{
    private readonly string _variable = "MILLRACE_TEST_" + Guid.NewGuid().ToString("N");

    public void Dispose() => Environment.SetEnvironmentVariable(_variable, null);

    [Theory]
    [InlineData("/a/ours.dll", null)]
    [InlineData("/a/ours.dll:/b/theirs.dll", "/b/theirs.dll")]
    [InlineData("/b/theirs.dll:/a/ours.dll:third", "/b/theirs.dll:third")]
    [InlineData("/b/theirs.dll", "/b/theirs.dll")]
    [InlineData(null, null)]
    public void Only_our_entry_is_removed(string? before, string? after)
    {
        Environment.SetEnvironmentVariable(_variable, before);

        EnvironmentList.Remove(_variable, ':', entry => entry == "/a/ours.dll");

        Assert.Equal(after, Environment.GetEnvironmentVariable(_variable));
    }

    [Theory]
    [InlineData(null, "Ours")]
    [InlineData("Theirs", "Theirs;Ours")]
    public void Entry_is_added_behind_those_of_others(string? before, string after)
    {
        Environment.SetEnvironmentVariable(_variable, before);

        EnvironmentList.Add(_variable, ';', "Ours");

        Assert.Equal(after, Environment.GetEnvironmentVariable(_variable));
    }
}
