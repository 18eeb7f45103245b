// An application that runs as another user than the daemon: what it gets of the daemon, and of whoever was that user before.

using System.Net;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task Another_user_runs_the_application_and_cannot_ask_the_daemon()
    {
        if (Environment.UserName == "root")
        {
            // Another user can run it where he may read it: a clone in root's own folder is nobody else's.
            OpenToAll(_directory.Path);     // the copy of its code lies there
            bool mayRead = HostKinds.Split('/').Where(static part => part.Length > 0).Aggregate((Path: "", May: true), static (at, part) => (at.Path + "/" + part, at.May && IsOpen(at.Path + "/" + part))).May;
            Write(App("shop", _shop, "\"user\": \"nobody\""));
            await StartAsync(mayRead ? "shop: generation 1 serves" : "shop: it did not start");
            using var answer = await _client.GetAsync(_shop + "/user");
            Assert.Equal(mayRead ? (HttpStatusCode.OK, "nobody") : (HttpStatusCode.ServiceUnavailable, ""), (answer.StatusCode, mayRead ? await answer.Content.ReadAsStringAsync() : ""));
        }
        else
        {
            Write(App("shop", _shop, "\"user\": \"root\""));
            await StartAsync(waitFor: "cannot be started as user root");
        }

        Assert.Equal("600 700", $"{ModeOf(Control)} {ModeOf(Path.GetDirectoryName(Control)!)}");
    }

    private static void OpenToAll(string path)
    {
        if (OperatingSystem.IsLinux())
        {
            System.IO.File.SetUnixFileMode(path, (UnixFileMode)0x1C9);
        }
    }

    private static bool IsOpen(string path) => (Convert.ToInt32(ModeOf(path), 8) & 1) != 0 || System.IO.File.Exists(path);

    private static string ModeOf(string path) => OperatingSystem.IsLinux() ? Convert.ToString((int)System.IO.File.GetUnixFileMode(path), 8) : "";

    // A process of the one before may have kept them, and accept who comes for the next.
    [Fact]
    public async Task Another_users_processes_have_sockets_of_their_own()
    {
        Write(App("shop", $"fastcgi://unix:{Socket}"));
        await StartAsync();
        string before = await FileAsync(Socket);
        Write(App("shop", $"fastcgi://unix:{Socket}", "\"instances\": 2"));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal(before, await FileAsync(Socket));
        if (Environment.UserName == "root")
        {
            Write(App("shop", $"fastcgi://unix:{Socket}", "\"instances\": 2, \"user\": \"root\""));
            Assert.Equal(0, (await DoAsync("reload")).ExitCode);
            Assert.NotEqual(before, await FileAsync(Socket));
        }
    }

    private static async Task<string> FileAsync(string path)
    {
        await using var stat = CommandProcess.StartProgram("stat", "--format", "%i %z", path);
        Assert.Equal(0, await stat.WaitForExitAsync());
        return stat.Output;
    }

    // Which may be another user's: who shares a terminal with a shell can type for its user.
    [Theory]
    [InlineData("")]
    [InlineData("exec")]        // it leads its session, and cannot leave the terminal
    public async Task What_the_daemon_has_inherited_its_applications_have_not(string shell)
    {
        string secret = Path.Combine(_directory.Path, "secret");
        await System.IO.File.WriteAllTextAsync(secret, "open");
        Write(App("shop", _shop));
        string daemon = $"exec 7<'{secret}'; {shell} dotnet '{CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")}' serve '{File}'; true";
        await using var terminal = CommandProcess.StartProgram("script", "--quiet", "--command", daemon, "/dev/null");
        await terminal.WaitForOutputAsync("shop: generation 1 serves");

        int process = ProcessesOf("shop", await StatusAsync()).Single();
        string[] facts = (await System.IO.File.ReadAllTextAsync($"/proc/{process}/stat")).Split(") ")[1].Split(' ');
        Assert.Equal("0", facts[4]);        // proc_pid_stat(5): tty_nr
        Assert.DoesNotContain(Directory.GetFiles($"/proc/{process}/fd"), entry => new FileInfo(entry).LinkTarget == secret);

        Assert.Equal(0, (await DoAsync("shutdown")).ExitCode);
        Assert.Equal(0, await terminal.WaitForExitAsync());
    }
}
