// An application of a daemon that has become another program, or has been put in the place of one that was killed: whatever is the matter with it is no other's matter.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

public sealed class ResumedAppTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly MemoryStream _printed = new();

    private int _process;
    private ulong _started;

    public void Dispose()
    {
        ServedProcess.Kill(_process, _started);     // where a test has failed
        _folder.Dispose();
    }

    private AppSettings Settings => new() { Name = "app", Target = _folder.PathOf("none"), Urls = [_folder.NewAddress("http")], TriesAgain = false };

    private HostedApp Resume(AppSaved saved) =>
        HostedApp.Resume(saved, new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code"))), AppVoice.Among("app", new SteadyOutput(_printed, Stream.Null)), static () => { });

    // Not this process's: what the runtime has started it waits for itself.
    private static async Task<int> StartStrangerAsync()
    {
        using var shell = Process.Start(new ProcessStartInfo("sh", ["-c", "sleep 600 >/dev/null & echo $!"]) { RedirectStandardOutput = true })!;
        return int.Parse(await shell.StandardOutput.ReadToEndAsync(), CultureInfo.InvariantCulture);
    }

    private static InstanceState InstanceOf(int process) => new(
        "app-1-1", process, ServedProcess.StartTimeOf(process), DateTimeOffset.UtcNow, ServesSince: 1, Nowhere("private"), Nowhere("channel"), Output: -1, Error: -1, new Dictionary<string, string>(), DescriptorsMost: 0, Groups: null);

    private static ListenerState Nowhere(string name) => new($"fastcgi://unix:/nowhere/{name}.sock", -1, null);

    [Theory]
    [InlineData("Serving", "Waiting")]
    [InlineData("Idle", "Waiting")]
    [InlineData("Held", "Held")]
    [InlineData("Stopped", "Stopped")]
    public async Task One_whose_addresses_cannot_be_taken_over_begins_anew_and_its_processes_are_ended(string before, string after)
    {
        AppSettings settings = Settings;
        AppSaved saved = (await SavedAsync(settings, Enum.Parse<AppState>(before))) with { Listeners = new ListenersState([], -1, -1) };

        await using HostedApp app = Resume(saved);

        Assert.Equal(Enum.Parse<AppState>(after), app.State);
        Assert.True(ProcessState.Becomes(() => HasEnded(_process)));
        Assert.Contains(app.Status.Events, static its => its.What == "its processes could not be taken over, and are ended: The channel between its generations is none.");
        await app.GoOnServingAsync();
    }

    [Fact]
    public async Task A_process_that_cannot_be_looked_after_is_ended_and_its_application_goes_on()
    {
        await using HostedApp app = Resume(await SavedAsync(Settings, AppState.Serving));

        Assert.Equal(AppState.Serving, app.State);
        Assert.True(ProcessState.Becomes(() => HasEnded(_process)));
        Assert.Contains(app.Status.Events, its => its.What.StartsWith($"process {_process} cannot be looked after, and is ended: Descriptor -1 does not listen", StringComparison.Ordinal));
        await app.GoOnServingAsync();       // what is asked before that waits for it, its end too
    }

    // Somebody else has its address for a while. Visitors are to be answered as soon as that can be.
    [Fact]
    public async Task One_that_is_held_opens_its_addresses_when_they_are_free()
    {
        using var other = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        other.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        other.Listen();
        AppSettings settings = Settings with { Urls = [$"http://{other.LocalEndPoint}"] };
        await using HostedApp app = Resume(new AppSaved { Settings = settings, State = AppState.Held, IsHeldOnRequest = true, Reason = "Somebody wanted it." });
        await app.GoOnServingAsync();
        Assert.Equal((AppState.Held, "Somebody wanted it."), (app.State, app.Reason));
        Assert.Contains(app.Status.Events, static its => its.What.StartsWith("nobody is let in: ", StringComparison.Ordinal));
        EndPoint place = other.LocalEndPoint!;
        other.Dispose();

        Assert.True(ProcessState.Becomes(() => IsLetIn(place), patienceMs: 30_000));
    }

    private static bool IsLetIn(EndPoint place)
    {
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            client.Connect(place);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    // Of a process that has no sockets.
    private async Task<AppSaved> SavedAsync(AppSettings settings, AppState state)
    {
        _process = await StartStrangerAsync();
        _started = ServedProcess.StartTimeOf(_process);
        var generation = new GenerationState(
            1, settings, new RunnableApp("/nowhere/App.dll", "/nowhere", Executable: null), Code: null, Started: 1, [], Restarts: 0, Recycles: 0, HasSuccessor: false, [new SlotState(0, 0, InstanceOf(_process), [], IsLeaving: false)]);
        return new AppSaved { Settings = settings, State = state, Generations = 1, Current = generation };
    }

    // It may wait for whoever has it as a child now.
    private static bool HasEnded(int process)
    {
        try
        {
            string stat = File.ReadAllText($"/proc/{process}/stat");
            return stat[(stat.LastIndexOf(')') + 2)..][0] is 'Z' or 'X';
        }
        catch (IOException)
        {
            return true;
        }
    }

    // Its account has gone, or whoever knows of it does not answer just now.
    [Fact]
    public async Task A_user_who_is_not_there_keeps_nobody_from_going_on()
    {
        await using HostedApp app = Resume(new AppSaved { Settings = Settings with { User = "no-such-user" }, State = AppState.Stopped, Code = "deployed" });

        Assert.Contains(app.Status.Events, static its => its.What.Contains("are not looked for until its next generation", StringComparison.Ordinal) && its.What.Contains("no-such-user", StringComparison.Ordinal));
        await app.GoOnServingAsync();
        Assert.Equal(AppState.Stopped, app.State);
    }

    // The control socket answers as soon as it is there, and whoever has waited at it is first.
    [Fact]
    public async Task What_is_asked_of_it_before_it_goes_on_waits_for_that()
    {
        AppSettings settings = Settings;
        await using HostedApp app = Resume(new AppSaved { Settings = settings, State = AppState.Held, IsHeldOnRequest = true, Page = "<p>held</p>"u8.ToArray() });
        Task<string?> stop = app.StopAsync();
        await Task.Delay(200);
        Assert.False(stop.IsCompleted);

        Task goOn = app.GoOnServingAsync();
        await goOn;
        Assert.Null(await stop);
        Assert.Equal(AppState.Stopped, app.State);
        Assert.False(File.Exists(settings.Urls[0].Split("unix:")[1]));
    }

    // As it was before.
    [Fact]
    public async Task One_that_is_held_answers_with_its_page_again()
    {
        AppSettings settings = Settings;
        await using HostedApp app = Resume(new AppSaved { Settings = settings, State = AppState.Held, IsHeldOnRequest = true, Page = "<p>held</p>"u8.ToArray() });
        await app.GoOnServingAsync();
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        await client.ConnectAsync(new UnixDomainSocketEndPoint(settings.Urls[0].Split("unix:")[1]));
        await client.SendAsync("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"u8.ToArray());
        await using var stream = new NetworkStream(client);
        using var reader = new StreamReader(stream, Encoding.UTF8);
        string answer = await reader.ReadToEndAsync();
        Assert.StartsWith("HTTP/1.1 503 ", answer, StringComparison.Ordinal);
        Assert.EndsWith("<p>held</p>", answer, StringComparison.Ordinal);
    }
}
