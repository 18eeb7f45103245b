// New versions that are copied over the old one while it runs.

using System.Net;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task New_files_are_deployed_when_they_are_whole_and_the_old_ones_run_on_until_then()
    {
        string folder = Publish("v1");
        Write(App("shop", _shop).Replace(HostKinds, folder, StringComparison.Ordinal));
        await StartAsync();
        Assert.Equal("v1", await VersionAsync());
        Assert.Equal(folder, await _client.GetStringAsync(_shop + "/folder"));
        Assert.Single(Directory.GetDirectories(Snapshots, "shop-1-*", SearchOption.AllDirectories));

        // A page is content: it is there at once, and starts nothing.
        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "page.txt"), "a page");
        Assert.Equal("a page", await _client.GetStringAsync(_shop + "/page"));

        // Half of a new version, in place, over what runs.
        string assembly = Path.Combine(folder, "Millrace.Interop.HostKinds.dll");
        byte[] whole = await System.IO.File.ReadAllBytesAsync(assembly);
        await System.IO.File.WriteAllBytesAsync(assembly, whole[..(whole.Length / 2)]);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()) is var shop && shop.GetProperty("state").GetString() == "serving" && shop.GetProperty("reason").GetString() is not null);
        Assert.Equal("v1", await VersionAsync());

        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v2");
        await System.IO.File.WriteAllBytesAsync(assembly, whole);
        await WaitForAsync(async () => await VersionAsync() == "v2");
        Assert.Equal("", AppOf("shop", await StatusAsync()).GetProperty("reason").GetString() ?? "");
        await WaitForAsync(() => Task.FromResult(Directory.GetDirectories(Snapshots, "shop-*", SearchOption.AllDirectories).Length == 1));

        // What somebody has held is left to them.
        Assert.Equal(0, (await DoAsync("hold", "shop")).ExitCode);
        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v3");
        await Task.Delay(3_000);
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await _client.GetAsync(_shop + "/health")).StatusCode);
        Assert.Equal(0, (await DoAsync("release", "shop")).ExitCode);
        Assert.Equal("v3", await VersionAsync());
    }

    [Fact]
    public async Task An_application_that_is_held_because_it_crashes_is_started_when_its_files_change()
    {
        string folder = Publish("crashes");
        Write(App("shop", _shop).Replace(HostKinds, folder, StringComparison.Ordinal));
        await StartAsync("shop: held: 5 processes ended within 60 s");

        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v2");
        await WaitForStatusAsync("shop", "serving");
        Assert.Equal("v2", await VersionAsync());
    }

    [Fact]
    public async Task Without_a_snapshot_and_unwatched_an_application_runs_from_its_folder_until_it_is_reloaded()
    {
        string folder = Publish("v1");
        Write(App("shop", _shop, "\"snapshot\": false", "\"watch\": false").Replace(HostKinds, folder, StringComparison.Ordinal));
        await StartAsync();
        Assert.False(Directory.Exists(Snapshots));
        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v2");
        await Task.Delay(3_000);
        Assert.Equal(1, AppOf("shop", await StatusAsync()).GetProperty("generation").GetInt32());

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal(2, AppOf("shop", await StatusAsync()).GetProperty("generation").GetInt32());
    }

    private string Snapshots => Path.Combine(_directory.Path, "snapshots");

    // The application in a folder of its own; which version it is stands beside its code.
    private string Publish(string version)
    {
        string folder = Path.Combine(_directory.Path, "published");
        Directory.CreateDirectory(folder);
        foreach (string file in Directory.GetFiles(Path.GetDirectoryName(HostKinds)!))
        {
            System.IO.File.Copy(file, Path.Combine(folder, Path.GetFileName(file)));
        }
        System.IO.File.WriteAllText(Path.Combine(folder, "version.deps.json"), version);
        return Path.Combine(folder, "Millrace.Interop.HostKinds.dll") is var assembly && System.IO.File.Exists(assembly) ? folder : throw new FileNotFoundException(assembly);
    }

    private Task<string> VersionAsync() => _client.GetStringAsync(_shop + "/version");
}
