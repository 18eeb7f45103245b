// Releases to which a link leads: what is put in the place of a process is of its release, wherever the link leads by then.

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private string Releases => Path.Combine(_directory.Path, "releases");

    // The link itself, and one in a folder above.
    [Theory]
    [InlineData("", "")]
    [InlineData("shop", "")]
    [InlineData("shop", "\"snapshot\": false")]
    public async Task What_is_put_in_the_place_of_another_is_of_its_release_and_not_of_one_that_has_failed_since(string below, string more)
    {
        string first = Release("1", below, "v1");
        string second = Release("2", below, "ends");
        Lead("1");
        Write(AppAt(below, more.Length > 0 ? [more] : []));
        var daemon = await StartAsync();

        Lead("2");
        await WaitForReasonAsync();
        Kill(ProcessesOf("shop", await StatusAsync()).Single());
        await WaitForRestartsAsync(1);
        await AreOfAsync(first, 1);
        Assert.Equal("1", await _client.GetStringAsync(_shop + "/page"));

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("scale", "shop", "3"));
        await AreOfAsync(first, 3);

        await UpgradeAsync();
        Kill(ProcessesOf("shop", await StatusAsync()).First());
        await WaitForRestartsAsync(2);
        await AreOfAsync(first, 3);

        await KillAndStartAsync(daemon);
        await WaitForReasonAsync();
        Kill(ProcessesOf("shop", await StatusAsync()).First());
        await WaitForRestartsAsync(3);
        await AreOfAsync(first, 3);

        await System.IO.File.WriteAllTextAsync(Path.Combine(second, "version.deps.json"), "v2");
        await WaitForAsync(async () => await VersionAsync() == "v2");
        await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).All(process => FolderOf(process) == second));
        Assert.Equal("2", await _client.GetStringAsync(_shop + "/page"));
    }

    [Fact]
    public async Task What_is_recycled_is_of_its_release_also_where_the_file_names_its_folder()
    {
        string first = Release("1", "", "v1");
        _ = Release("2", "", "ends");
        Lead("1");
        Write(App("shop", _shop, $"\"workingDirectory\": \"{Path.Combine(Releases, "current", "data")}\"", "\"recycle\": { \"age\": \"10s\" }").Replace(HostKinds, Path.Combine(Releases, "current"), StringComparison.Ordinal));
        await StartAsync();
        Lead("2");
        await WaitForReasonAsync();

        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("recycles").GetInt32() > 0);
        await AreOfAsync(Path.Combine(first, "data"), 1);
    }

    [Fact]
    public async Task A_release_that_somebody_has_removed_while_it_serves_is_a_sentence_with_both_of_its_names()
    {
        string first = Release("1", "", "v1");
        string second = Release("2", "", "ends");
        Lead("1");
        Write(AppAt(""));
        await StartAsync();
        Lead("2");
        await WaitForReasonAsync();

        Directory.Delete(first, recursive: true);
        Kill(ProcessesOf("shop", await StatusAsync()).Single());
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Any(happened => happened.GetProperty("what").GetString() is var what
            && what!.StartsWith($"no process could be put in its place: {first}, which the application works in, cannot be entered: ", StringComparison.Ordinal)
            && what.EndsWith($" ({Releases}/current led there when its generation was started; a reload begins where it leads now.)", StringComparison.Ordinal)));

        await System.IO.File.WriteAllTextAsync(Path.Combine(second, "version.deps.json"), "v2");
        await WaitForStatusAsync("shop", "serving");
        Assert.Equal("v2", await VersionAsync());

        Directory.CreateDirectory(Path.Combine(Releases, "3"));
        Lead("3");
        var (exitCode, _, error) = await DoAsync("reload", "shop");
        Assert.Equal(1, exitCode);
        Assert.StartsWith($"millrace: shop: '{Releases}/3' holds neither a project nor a published application. ", error, StringComparison.Ordinal);
        Assert.EndsWith($" ({Releases}/current leads to {Releases}/3.)\n", error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_process_that_none_can_be_put_in_the_place_of_takes_those_that_serve_with_it_never()
    {
        string folder = Release("1", "", "v1");
        Write(App("shop", _shop, "\"instances\": 2").Replace(HostKinds, folder, StringComparison.Ordinal));
        await StartAsync();
        Directory.Delete(folder, recursive: true);
        int[] both = [.. ProcessesOf("shop", await StatusAsync())];
        Kill(both[0]);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray()
            .Count(static happened => happened.GetProperty("what").GetString()!.StartsWith("no process could be put in its place: ", StringComparison.Ordinal)) == 5);

        Assert.Equal("v1", await VersionAsync());
        Assert.StartsWith("shop serving", StatesOf(await StatusAsync()).Single(), StringComparison.Ordinal);
        Kill(both[1]);
        await WaitForStatusAsync("shop", "held");

        Release("1", "", "v2");
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal("v2", await VersionAsync());
    }

    // The application of these tests in a folder of its own; its page says which one it is.
    private string Release(string name, string below, string version)
    {
        string folder = Path.TrimEndingDirectorySeparator(Path.Combine(Releases, name, below));
        CopyAll(Path.GetDirectoryName(HostKinds)!, folder);
        Directory.CreateDirectory(Path.Combine(folder, "data"));
        System.IO.File.WriteAllText(Path.Combine(folder, "page.txt"), name);
        System.IO.File.WriteAllText(Path.Combine(folder, "version.deps.json"), version);
        return folder;
    }

    private void Lead(string name)
    {
        string link = Path.Combine(Releases, "current");
        System.IO.File.Delete(link);
        System.IO.File.CreateSymbolicLink(link, name);
    }

    private string AppAt(string below, params string[] more) =>
        App("shop", _shop, more).Replace(HostKinds, Path.TrimEndingDirectorySeparator(Path.Combine(Releases, "current", below)), StringComparison.Ordinal);

    private Task WaitForReasonAsync() => WaitForAsync(async () => AppOf("shop", await StatusAsync()) is var shop && shop.GetProperty("state").GetString() == "serving" && shop.GetProperty("reason").GetString() is not null);

    private Task WaitForRestartsAsync(int count) => WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == count);

    private async Task AreOfAsync(string folder, int count)
    {
        string status = await StatusAsync();
        Assert.Equal(Enumerable.Repeat(folder, count), ProcessesOf("shop", status).Select(FolderOf));
        Assert.Equal("v1", await VersionAsync());
    }

    private static string? FolderOf(int process) => new FileInfo($"/proc/{process}/cwd").LinkTarget;
}
