// The number of processes of an application while it serves.

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task Scaling_up_and_down_loses_no_request_and_closes_no_connection()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}"));
        await StartAsync();
        await UnderLoadAsync(async () =>
        {
            foreach (int count in (int[])[3, 1, 4, 2])
            {
                Assert.Equal((0, "shop: serving\n", ""), await DoAsync("scale", "shop", $"{count}"));
                await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Distinct().Count() == count);
            }
        });
        int[] processes = [.. ProcessesOf("shop", await StatusAsync())];

        // It stays so over a deployment, and over a file that has not changed; a number in the file is the file's.
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal(2, ProcessesOf("shop", await StatusAsync()).Except(processes).Count());
        Assert.Equal((0, $"{File}: 0 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal(2, ProcessesOf("shop", await StatusAsync()).Count());
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 3"));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal(3, ProcessesOf("shop", await StatusAsync()).Count());
        Assert.Equal(0, AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32());
    }

    [Fact]
    public async Task What_cannot_be_scaled_stays_as_it_was()
    {
        string flag = Path.Combine(_directory.Path, "ends");
        Write(App("shop", _shop, $$""" "environment": { "ENDS_WHILE": "{{flag}}" } """));
        await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        foreach (string count in (string[])["0", "65", "-1"])
        {
            Assert.Equal((1, "", "millrace: An application has 1 to 64 processes. `millrace stop` ends them all.\n"), await DoAsync("scale", "shop", count));
        }
        Assert.Equal(2, (await DoAsync("scale", "shop", "many")).ExitCode);
        Assert.Equal((1, "", "millrace: There is no application 'shoop'. There are: shop.\n"), await DoAsync("scale", "shoop", "2"));

        await System.IO.File.WriteAllTextAsync(flag, "");
        Assert.Equal((1, "", "millrace: shop: The process ended with exit code 3 before it listened.\n"), await DoAsync("scale", "shop", "3"));
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        Assert.Single(ProcessesOf("shop", await StatusAsync()));
        System.IO.File.Delete(flag);

        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("scale", "shop", "2"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("start", "shop"));
        Assert.Equal(2, ProcessesOf("shop", await StatusAsync()).Count());
    }

    // Its process was not told to accept: there is nothing that it could end first.
    [Fact]
    public async Task Nobody_waits_for_the_end_of_a_further_process_that_never_started()
    {
        string mark = Path.Combine(_directory.Path, "stuck");
        Write(App("shop", _shop, $$""" "environment": { "STUCK_WHILE": "{{mark}}" } """).Replace("\"10s\"", "\"5m\"", StringComparison.Ordinal));
        var daemon = await StartAsync();
        await System.IO.File.WriteAllTextAsync(mark, "");
        var scale = DoAsync("scale", "shop", "2");
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(mark + ".now")));        // it takes no notice of signals by now

        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop").WaitAsync(TimeSpan.FromSeconds(30)));
        Assert.Equal(1, (await scale).ExitCode);
        Assert.All(ChildrenOf(daemon.Id), static child => Assert.DoesNotContain("Served", CommandLineOf(child), StringComparison.Ordinal));
    }
}
