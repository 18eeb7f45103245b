// What a daemon does when the machine takes something from it: the room for another process, or the folders it has made.

using System.Globalization;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private const int SigHup = 1;

    // What lies at the places of its sockets keeps any further process from being started, and is nothing that the application has done.
    [Fact]
    public async Task Where_no_other_process_can_be_started_those_that_serve_go_on()
    {
        Write(App("shop", _shop, "\"instances\": 2"));
        await StartAsync();
        string[] blocked = [.. Enumerable.Range(3, 20).Select(i => Path.Combine(Path.GetDirectoryName(Control)!, string.Create(CultureInfo.InvariantCulture, $"shop-1-{i}.http")))];
        Array.ForEach(blocked, static path => Directory.CreateDirectory(path));
        int[] before = [.. ProcessesOf("shop", await StatusAsync())];

        Kill(before[0]);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Count(static happened => happened.GetProperty("what").GetString()!.StartsWith("no process could be put in its place", StringComparison.Ordinal)) == 5);

        using var client = new HttpClient();
        Assert.Equal(before[1].ToString(CultureInfo.InvariantCulture), await client.GetStringAsync(_shop + "/process"));
        Assert.Equal("serving", AppOf("shop", await StatusAsync()).GetProperty("state").GetString());

        Array.ForEach(blocked, Directory.Delete);
        await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Count() == 2);
    }

    [Fact]
    public async Task An_application_that_could_not_be_started_again_is_tried_until_it_can()
    {
        Write(App("shop", _shop));
        await StartAsync();
        string[] blocked = [.. Enumerable.Range(2, 20).Select(i => Path.Combine(Path.GetDirectoryName(Control)!, string.Create(CultureInfo.InvariantCulture, $"shop-1-{i}.http")))];
        Array.ForEach(blocked, static path => Directory.CreateDirectory(path));

        Kill(ProcessesOf("shop", await StatusAsync()).Single());
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Any(static happened => happened.GetProperty("what").GetString()!.StartsWith("it does not run: ", StringComparison.Ordinal)));

        await WaitForStatusAsync("shop", "serving");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
    }

    [Fact]
    public async Task Folders_that_somebody_has_removed_are_made_again_and_SIGHUP_makes_the_control_socket_again()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        Directory.Delete(Path.GetDirectoryName(Control)!, recursive: true);
        Directory.Delete(Snapshots, recursive: true);

        daemon.Signal(SigHup);
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(Control)));
        int process = ProcessesOf("shop", await StatusAsync()).Single();
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        int next = ProcessesOf("shop", await StatusAsync()).Single();
        Assert.NotEqual(process, next);

        Kill(next);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    private static void Kill(int id)
    {
        using var process = System.Diagnostics.Process.GetProcessById(id);
        process.Kill();
        process.WaitForExit();
    }
}
