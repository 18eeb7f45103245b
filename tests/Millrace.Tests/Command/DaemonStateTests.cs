// What one program writes down of a daemon, and another one reads.

using System.Globalization;
using System.Runtime.Versioning;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class DaemonStateTests : IDisposable
{
    private static readonly DateTimeOffset s_time = new(2026, 1, 2, 3, 4, 5, TimeSpan.Zero);

    private static readonly AppSettings s_settings = new()
    {
        Name = "shop",
        Target = "/srv/shop",
        Urls = ["fastcgi://unix:/run/shop.sock?mode=660"],
        Arguments = ["--a", "b c"],
        Environment = new Dictionary<string, string> { ["Title"] = "Ein Laden für \"alles\"" },
        SharedAs = [new SharedPlace("front", "blog.example", "/wiki")],
        Idle = TimeSpan.FromMinutes(5),
        Limits = new AppLimits(1 << 30, 1024, null, 0.5),
    };

    private readonly string _folder = Directory.CreateTempSubdirectory("millrace-state-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public void All_that_is_written_is_read()
    {
        var state = State(events: 2);
        var read = DaemonState.Read(state.Write(), out string why);
        Assert.Equal("", why);
        Assert.Equal(state.Write(), read!.Write());
        Assert.True(read.Apps[0].Settings.IsSame(s_settings));
        Assert.Equal(AppState.Held, read.Apps[0].State);
        Assert.Equal([1, 2, 3], read.Apps[0].Page);
        Assert.Equal([4, 20, 21, 22, 23, 5, 24, 6, 7, 8], read.Descriptors);
    }

    // As much as an application can print, in characters that would take six bytes each where they are escaped, or twelve for two.
    [Theory]
    [InlineData("x", 1)]
    [InlineData("水", 3)]
    [InlineData("😀", 12)]
    [InlineData("\u0001", 6)]
    public async Task What_is_handed_over_of_what_an_application_has_printed_is_bounded_in_bytes(string text, int bytesMost)
    {
        var output = new AppOutput(static _ => default);
        string line = string.Concat(Enumerable.Repeat(text, AppOutput.LineMax / text.Length));
        for (int i = 0; i < 500; i++)
        {
            await output.AddAsync(i + line);
        }
        var last = output.Last(int.MaxValue);
        var given = output.HandedOver;
        Assert.Equal(last.TakeLast(given.Count), given);
        Assert.InRange(given.Count, Math.Min(last.Count, AppOutput.HandedOverMax / ((line.Length * bytesMost) + 10)), last.Count);

        var state = State(events: 0);
        int without = state.Write().Length;
        byte[] written = (state with { Apps = [state.Apps[0] with { Output = given }] }).Write();
        Assert.InRange(written.Length - without, 1, AppOutput.HandedOverMax);
        Assert.Equal(given, DaemonState.Read(written, out _)!.Apps[0].Output);
    }

    // LineMax counts UTF-16, and cuts where it ends.
    [Fact]
    public async Task A_line_that_was_cut_in_the_middle_of_a_character_is_handed_over()
    {
        var output = new AppOutput(static _ => default);
        await output.AddAsync("half \uD83D");
        var state = State(events: 0);
        byte[] written = (state with { Apps = [state.Apps[0] with { Output = output.HandedOver }] }).Write();
        Assert.Equal(["half \uFFFD"], DaemonState.Read(written, out _)!.Apps[0].Output);
    }

    // Whoever became another program with it would end.
    [Fact]
    public async Task A_state_that_is_too_long_is_neither_handed_over_nor_taken()
    {
        const string said = "The state of the daemon has more than 256m";
        Assert.Null(DaemonState.WhyTooLong(DaemonState.LengthMax));
        Assert.StartsWith(said, await CommandImage.OfProcess().WhyNotAsync(new byte[DaemonState.LengthMax + 1]), StringComparison.Ordinal);
        Assert.Null(await DaemonState.ReadAllAsync(new Zeros(DaemonState.LengthMax + 1L), CancellationToken.None));
        Assert.Equal(100_000, (await DaemonState.ReadAllAsync(new Zeros(100_000), CancellationToken.None))!.Length);

        SafeFileHandle memory = Posix.MemoryFile("millrace-too-long");
        RandomAccess.SetLength(memory, DaemonState.LengthMax + 1L);
        Environment.SetEnvironmentVariable(CommandImage.StateVariable, $"{(int)memory.DangerousGetHandle()}");
        memory.SetHandleAsInvalid();        // it is closed there
        Assert.StartsWith(said, Assert.Throws<CommandFailure>(CommandImage.TakeState).Message, StringComparison.Ordinal);
    }

    private sealed class Zeros(long length) : MemoryStream
    {
        private long _left = length;

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            int count = (int)Math.Min(_left, buffer.Length);
            buffer.Span[..count].Clear();
            _left -= count;
            return ValueTask.FromResult(count);
        }
    }

    [Fact]
    public void What_a_program_does_not_know_it_leaves_out_and_what_it_misses_has_a_value()
    {
        string text = Encoding.UTF8.GetString(State(events: 0).Write());
        Assert.NotNull(DaemonState.Read(Encoding.UTF8.GetBytes(text.Replace("\"attempts\":0,", "\"tomorrow\":{\"is\":[1]},", StringComparison.Ordinal)), out _));
    }

    [Theory]
    [InlineData("", "It does not understand the state: ")]
    [InlineData("{}", "It reads states of version 1, and this one is of version 0.")]
    [InlineData("{ \"version\": 2 }", "It reads states of version 1, and this one is of version 2.")]
    [InlineData("{ \"version\": 1, \"apps\": 3 }", "It does not understand the state: ")]
    public void What_is_not_understood_is_said(string text, string sentence)
    {
        Assert.Null(DaemonState.Read(Encoding.UTF8.GetBytes(text), out string why));
        Assert.StartsWith(sentence, why, StringComparison.Ordinal);
    }

    [Fact]
    public void The_last_whole_state_of_a_folder_is_read_and_none_is_left_behind()
    {
        File.SetUnixFileMode(_folder, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        Assert.Null(StateFile.Read(_folder, out var strangers));
        Assert.Empty(strangers);
        var file = new StateFile(new DaemonFolders(new DaemonPlaces(Path.Combine(_folder, "control.sock"), "/code")));
        file.Write(() => State(events: 1));
        file.Write(() => State(events: 2));
        string last = Assert.Single(Directory.GetFiles(_folder, "*.json"));
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(last));
        WriteOwn(Path.Combine(_folder, "state-9.json"), Encoding.UTF8.GetString(State(events: 3).Write()[..50]));       // its writer has been killed
        Assert.Equal(2, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);

        file = new StateFile(new DaemonFolders(new DaemonPlaces(Path.Combine(_folder, "control.sock"), "/code")));
        file.Write(() => State(events: 4));
        Assert.Equal(4, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        file.Keep();        // the daemon begins to end: what it does from now on nobody has asked for
        file.Write(() => State(events: 5));
        Assert.Equal(4, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        file.End();
        file.Write(() => State(events: 6));
        Assert.Empty(Directory.GetFiles(_folder));
    }

    [Fact]
    public async Task Many_who_change_something_at_a_time_are_written_down_together()
    {
        File.SetUnixFileMode(_folder, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        int writes = 0, changes = 0;
        using var begun = new ManualResetEventSlim();
        using var goOn = new ManualResetEventSlim();
        var file = new StateFile(new DaemonFolders(new DaemonPlaces(Path.Combine(_folder, "control.sock"), "/code")), (folder, name, bytes) =>
        {
            folder.Write(name, bytes);
            writes++;
            begun.Set();
            goOn.Wait();
            Thread.Sleep(100);      // whoever has not come to ask yet does so meanwhile
        });
        Task first = Task.Run(() => file.Write(() => State(events: 1)));
        begun.Wait();
        Thread[] others = [.. Enumerable.Range(0, 20).Select(_ => new Thread(() =>
        {
            Interlocked.Increment(ref changes);
            file.Write(() => State(events: 1 + Volatile.Read(ref changes)));
        }))];
        Array.ForEach(others, static thread => thread.Start());
        Assert.True(SpinWait.SpinUntil(() => others.All(static thread => (thread.ThreadState & ThreadState.WaitSleepJoin) != 0), TimeSpan.FromSeconds(20)));
        goOn.Set();
        await first;
        Array.ForEach(others, static thread => thread.Join());

        Assert.InRange(writes, 2, 4);
        Assert.Equal(21, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        file.Write(static () => State(events: 30));
        Assert.Equal(30, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        file.End();
    }

    [Fact]
    public void A_state_that_the_next_daemon_would_not_read_does_not_take_the_place_of_one_that_it_does()
    {
        File.SetUnixFileMode(_folder, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        int length = State(events: 2).Write().Length;
        var file = new StateFile(new DaemonFolders(new DaemonPlaces(Path.Combine(_folder, "control.sock"), "/code")), lengthMax: length);
        Assert.Null(file.Write(static () => State(events: 2)));

        Assert.StartsWith(string.Create(CultureInfo.InvariantCulture, $"it is {State(events: 3).Write().Length} bytes long, and the next daemon reads {length} at most"), file.Write(static () => State(events: 3)), StringComparison.Ordinal);
        Assert.Equal(2, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        Assert.Null(file.Write(static () => State(events: 1)));
        Assert.Single(StateFile.Read(_folder, out _)!.Apps[0].Events);
        file.End();
    }

    [Fact]
    public void A_disk_that_somebody_fills_has_room_for_a_state_yet_and_when_that_is_gone_too_it_is_said_once()
    {
        File.SetUnixFileMode(_folder, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        long free = long.MaxValue;
        void Write(OwnFolder folder, string name, byte[] bytes)
        {
            if (Directory.GetFiles(_folder).Sum(static path => new FileInfo(path).Length) + bytes.Length > free)
            {
                throw new IOException("No space left on device");
            }
            folder.Write(name, bytes);
        }
        var file = new StateFile(new DaemonFolders(new DaemonPlaces(Path.Combine(_folder, "control.sock"), "/code")), Write);
        Assert.Null(file.Write(static () => State(events: 1)));
        free = Directory.GetFiles(_folder).Sum(static path => new FileInfo(path).Length);

        Assert.Null(file.Write(static () => State(events: 2)));
        Assert.Equal(2, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);

        free = 0;
        Assert.Equal("No space left on device", file.Write(static () => State(events: 3)));
        Assert.Null(file.Write(static () => State(events: 4)));
        Assert.Equal(2, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);

        free = long.MaxValue;
        Assert.Null(file.Write(static () => State(events: 5)));
        Assert.Equal(5, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
        free = 0;
        Assert.NotNull(file.Write(static () => State(events: 6)));
        file.End();
        Assert.Empty(Directory.GetFiles(_folder));
    }

    [Fact]
    public void Of_a_state_in_another_form_the_processes_are_known_and_of_one_from_before_the_machine_was_started_nothing()
    {
        string text = Encoding.UTF8.GetString(State(events: 1).Write());
        string path = Path.Combine(_folder, "state-3.json");
        WriteOwn(path, text.Replace("\"version\":1", "\"version\":2", StringComparison.Ordinal).Replace("\"apps\":[", "\"apps\":3,\"others\":[", StringComparison.Ordinal));
        Assert.Null(StateFile.Read(_folder, out var strangers));
        Assert.Equal([new ProcessName(77, 123456)], strangers);

        WriteOwn(path, text.Replace(DaemonState.BootNow, "yesterday", StringComparison.Ordinal));
        Assert.Null(StateFile.Read(_folder, out strangers));
        Assert.Empty(strangers);
        WriteOwn(path, text);
        Assert.NotNull(StateFile.Read(_folder, out strangers));
        Assert.Empty(strangers);
    }

    [Fact]
    public void A_state_that_somebody_else_may_have_written_is_not_read()
    {
        string own = Path.Combine(_folder, "state-1.json"), other = Path.Combine(_folder, "state-2.json"), aside = Path.Combine(_folder, "aside");
        WriteOwn(own, Encoding.UTF8.GetString(State(events: 1).Write()));
        WriteOwn(aside, Encoding.UTF8.GetString(State(events: 2).Write()));
        Assert.Single(StateFile.Read(_folder, out _)!.Apps[0].Events);

        File.CreateSymbolicLink(other, aside);
        Assert.Single(StateFile.Read(_folder, out _)!.Apps[0].Events);
        File.Delete(other);
        Directory.CreateDirectory(other);
        Assert.Single(StateFile.Read(_folder, out _)!.Apps[0].Events);
        Directory.Delete(other);
        File.Move(aside, other);
        File.SetUnixFileMode(other, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupWrite);
        Assert.Single(StateFile.Read(_folder, out _)!.Apps[0].Events);
        File.SetUnixFileMode(other, UnixFileMode.UserRead | UnixFileMode.UserWrite);
        Assert.Equal(2, StateFile.Read(_folder, out _)!.Apps[0].Events.Count);
    }

    private static void WriteOwn(string path, string text)
    {
        File.WriteAllText(path, text);
        File.SetUnixFileMode(path, UnixFileMode.UserRead | UnixFileMode.UserWrite);
    }

    private static DaemonState State(int events)
    {
        var instance = new InstanceState("shop-1-1", 77, 123456, s_time, 99, new ListenerState("http://unix:/run/p", 6, "1:2:3"), new ListenerState("http://unix:/run/c", 7, "1:2:4"), 24, -1, new Dictionary<string, string>(), 65536, null, 8);
        var generation = new GenerationState(1, s_settings, new RunnableApp("/srv/shop/Shop.dll", "/srv/shop", null) { Folder = "/srv/releases/1" }, new CodeState("/code", "shop-1", "abc"), 2, [5, 6], 1, 2, false, [new SlotState(1, 0, instance, [], false)]);
        var app = new AppSaved
        {
            Settings = s_settings,
            State = AppState.Held,
            Page = [1, 2, 3],
            Listeners = new ListenersState([new ListenerState("fastcgi://unix:/run/shop.sock?mode=660", 20, "1:2:5"), new ListenerState("http://127.0.0.1:5000", 21, null)], 22, 23),
            Current = generation,
            Kept = [new KeptState(5, [9])],
            Pipes = [new PipeState(24, [65, 66])],
            Events = [.. Enumerable.Range(0, events).Select(static i => new AppEvent(s_time, $"event {i}"))],
        };
        return new DaemonState(DaemonState.VersionNow, "1.0", "/etc/millrace.json", new DaemonPlaces("/run/control.sock", "/code"), s_time, 3, "AA", null, 4, new GroupsState(true, [], new Dictionary<string, string> { ["cpu"] = "none" }), [app]);
    }
}
