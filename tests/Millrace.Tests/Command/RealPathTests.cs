using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class RealPathTests : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-test-");

    public RealPathTests()
    {
        Directory.CreateDirectory(At("releases/1/shop"));
        File.WriteAllText(At("releases/1/shop/Shop.dll"), "");
        File.CreateSymbolicLink(At("releases/1/shop/Other.dll"), "Shop.dll");
        File.CreateSymbolicLink(At("current"), "releases/newest");
        File.CreateSymbolicLink(At("releases/newest"), At("releases/1"));
        File.CreateSymbolicLink(At("round"), "round");
    }

    public void Dispose() => _folder.Delete(recursive: true);

    [Theory]
    [InlineData("current", "releases/1")]
    [InlineData("current/", "releases/1")]
    [InlineData("current/shop", "releases/1/shop")]
    [InlineData("current/shop/Shop.dll", "releases/1/shop/Shop.dll")]
    [InlineData("current/shop/Other.dll", "releases/1/shop/Other.dll")]
    [InlineData("current/shop/Gone.dll", "releases/1/shop/Gone.dll")]
    [InlineData("releases/1", "releases/1")]
    [InlineData("gone", "gone")]
    [InlineData("gone/shop", "gone/shop")]
    [InlineData("round", "round")]
    [InlineData("round/shop", "round/shop")]
    public void Of_a_path_all_folders_are_those_that_links_lead_to(string path, string real) => Assert.Equal(At(real), RealPath.Of(At(path)));

    [Fact]
    public void What_has_no_folder_is_what_it_is()
    {
        Assert.Equal("/", RealPath.Of("/"));
        Assert.Equal("Shop.dll", RealPath.Of("Shop.dll"));
        Assert.Equal("", RealPath.Of(""));
    }

    private string At(string path) => Path.Combine(_folder.FullName, path);
}
