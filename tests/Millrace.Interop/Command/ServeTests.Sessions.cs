// What the daemon has its applications share with itself and with one another: no process group, so that a signal to one's own is nobody else's matter, and no terminal.

using System.Globalization;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    // A script ends what it has started in the background with all of its process group.
    [Fact]
    public async Task A_script_of_an_application_that_signals_its_process_group_ends_neither_the_daemon_nor_a_neighbour()
    {
        Write(App("shop", _shop), App("blog", _blog));
        var daemon = CommandProcess.StartProgram("setsid", "dotnet", CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"), "serve", File);      // not where these tests are
        _daemons.Add(daemon);
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        await daemon.WaitForOutputAsync("blog: generation 1 serves");
        string shop = await _client.GetStringAsync(_shop + "/process");
        string blog = await _client.GetStringAsync(_blog + "/process");

        await _client.PostAsync(_shop + "/script", new StringContent("trap 'kill 0' EXIT; sleep 100 & true"));

        await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).SingleOrDefault() is not 0 and var now && now.ToString(CultureInfo.InvariantCulture) != shop);
        await WaitForStatusAsync("shop", "serving");
        Assert.NotEqual(shop, await _client.GetStringAsync(_shop + "/process"));
        Assert.Equal(blog, await _client.GetStringAsync(_blog + "/process"));
        Assert.DoesNotContain("stopping: ", daemon.Error, StringComparison.Ordinal);
        await EndAsync(daemon, [.. ProcessesOf("shop", await StatusAsync()), .. ProcessesOf("blog", await StatusAsync())]);
    }

    [Fact]
    public async Task Applications_and_routers_lead_sessions_of_their_own()
    {
        WriteShared(On("blog"), On("wiki", "\"path\": \"/wiki\"", "\"instances\": 2"));
        await StartAsync();

        string status = await StatusAsync();
        int[] processes = [.. ((string[])["blog", "wiki", "front"]).SelectMany(name => ProcessesOf(name, status))];
        Assert.Equal(4, processes.Length);
        Assert.All(processes, static process => Assert.Equal((process, process), GroupAndSessionOf(process)));
    }

    // The hook is what the runtime calls; an application that brings its own along is a program before.
    [Fact]
    public async Task A_program_leads_a_session_of_its_own_from_its_first_instruction()
    {
        string app = SelfContained("#!/bin/sh\necho \"?$$ $(cut -d ' ' -f 5-6 /proc/$$/stat)\" >/proc/self/fd/$MILLRACE_RUN_REPORT\nexit 1\n");
        Write(Deferred(app));
        await StartAsync(waitFor: "shop: it did not start");
        Assert.Matches(@"^(\d+) \1 \1$", AppOf("shop", await StatusAsync()).GetProperty("reason").GetString()!);
    }

    /// <summary>Its process group, and its session (proc_pid_stat(5)).</summary>
    internal static (int Group, int Session) GroupAndSessionOf(int process)
    {
        string[] facts = System.IO.File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{process}/stat")).Split(") ")[1].Split(' ');
        return (int.Parse(facts[2], CultureInfo.InvariantCulture), int.Parse(facts[3], CultureInfo.InvariantCulture));
    }
}
