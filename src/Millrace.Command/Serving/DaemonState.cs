// A daemon and all that it runs, as text: what one program writes down and another one goes on from. Fields are added, with a value that stands for their absence;
// Version changes where an older program would go wrong with what a newer one has written, or the other way round.

using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Serialization;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="Version">Of this form.</param>
/// <param name="Millrace">Who has written it.</param>
/// <param name="File">What is served; absolute.</param>
/// <param name="Places">Where the daemon keeps what it makes.</param>
/// <param name="Since">When it was started.</param>
/// <param name="Upgrades">How often it has become another program since.</param>
/// <param name="RouteSecret">By which applications know their routers.</param>
/// <param name="Control">Its control socket.</param>
/// <param name="Lock">The descriptor that holds the folder of its sockets.</param>
/// <param name="Groups">Where processes are put under their limits.</param>
/// <param name="Apps">In the order of the file.</param>
internal sealed record DaemonState(
    int Version, string Millrace, string File, DaemonPlaces Places, DateTimeOffset Since, int Upgrades, string RouteSecret, ListenerState? Control, int Lock, GroupsState Groups, IReadOnlyList<AppSaved> Apps)
{
    /// <summary>The form that this program writes and reads.</summary>
    public const int VersionNow = 1;

    /// <summary>Which start of the machine this is, as the kernel names it; empty where that is not known.</summary>
    [JsonIgnore]
    public static string BootNow { get; } = ControlFolder.Read("/proc/sys/kernel/random", "boot_id").Trim();

    /// <summary>Of which start of the machine it is: behind another one no process is one of these, whatever its number.</summary>
    public string Boot { get; init; } = BootNow;

    /// <summary>All processes, in a form that stays the same in all versions (<see cref="StateHead"/>).</summary>
    public IReadOnlyList<ProcessName> Processes => [.. Instances.Select(static instance => new ProcessName(instance.Process, instance.StartTime))];

    /// <summary>All that it has open.</summary>
    [JsonIgnore]
    public IEnumerable<int> Descriptors =>
    [
        .. Control is null ? [] : new[] { Control.Descriptor },
        Lock,
        .. Apps.SelectMany(static app => app.Listeners is { } its ? its.Sockets.Select(static socket => socket.Descriptor).Append(its.Gives).Append(its.Takes) : []),
        .. Apps.SelectMany(static app => app.Kept ?? []).Select(static kept => kept.Descriptor),
        .. Apps.SelectMany(static app => app.Pipes).Select(static pipe => pipe.Descriptor),
        .. Instances.SelectMany(static instance => new[] { instance.Private.Descriptor, instance.Channel.Descriptor, instance.Lifeline }),
    ];

    /// <summary>All processes that go on.</summary>
    [JsonIgnore]
    public IEnumerable<InstanceState> Instances => Apps.SelectMany(static app => app.Instances);

    /// <summary>Bytes from which a program goes on, as many as are read.</summary>
    public const int LengthMax = 256 * 1024 * 1024;

    public byte[] Write() => JsonSerializer.SerializeToUtf8Bytes(this, StateJson.Short.DaemonState);

    /// <summary>Why no program goes on from a state that is so long, as a sentence, or null.</summary>
    public static string? WhyTooLong(long bytes) => bytes <= LengthMax ? null
        : $"The state of the daemon has more than {Size.Text(LengthMax)}, from which no program goes on. Have some of the applications in another daemon, or stop those that are held with a large page.";

    /// <summary>What is written of a daemon, from one that hands it over; null where it is too long.</summary>
    public static Task<byte[]?> ReadAllAsync(Stream from, CancellationToken ct) => BoundedRead.AllAsync(from, LengthMax, ct);

    /// <summary>Null where it is not understood.</summary>
    /// <param name="text">What has been written.</param>
    /// <param name="why">Why not, as a sentence.</param>
    public static DaemonState? Read(ReadOnlySpan<byte> text, out string why)
    {
        try
        {
            int version = JsonSerializer.Deserialize(text, StateJson.Default.StateHead)?.Version ?? 0;
            why = version == VersionNow ? "" : $"It reads states of version {VersionNow}, and this one is of version {version}.";
            return version == VersionNow ? JsonSerializer.Deserialize(text, StateJson.Default.DaemonState) : null;
        }
        catch (JsonException error)
        {
            why = $"It does not understand the state: {error.Message}";
            return null;
        }
    }
}

/// <summary>What every version writes and reads: who does not understand the rest knows by it whom it has to end.</summary>
/// <param name="Version">Of the form of the rest.</param>
/// <param name="Boot">See <see cref="DaemonState.Boot"/>.</param>
/// <param name="Processes">Those that the daemon has looked after.</param>
internal sealed record StateHead(int Version, string? Boot, IReadOnlyList<ProcessName>? Processes)
{
    /// <summary>Null where it is none, such as that of a daemon which was killed when it wrote it.</summary>
    public static StateHead? Read(ReadOnlySpan<byte> text)
    {
        try
        {
            return JsonSerializer.Deserialize(text, StateJson.Default.StateHead);
        }
        catch (JsonException)
        {
            return null;
        }
    }
}

/// <param name="Process">Its number.</param>
/// <param name="StartTime">See <see cref="ServedProcess.StartTime"/>.</param>
internal sealed record ProcessName(int Process, ulong StartTime);

/// <param name="Address">What it was opened for, with its real port.</param>
/// <param name="Descriptor">Its number in the process that has written this.</param>
/// <param name="File">See <see cref="Listeners.ListenSocket.FileIdentity"/>.</param>
internal sealed record ListenerState(string Address, int Descriptor, string? File);

/// <param name="Sockets">Those that are listened on.</param>
/// <param name="Gives">The end of the channel at which connections are given.</param>
/// <param name="Takes">That at which they are taken.</param>
/// <param name="StoredAs">See <see cref="AppListeners.StoredAs"/>; null: what its settings say.</param>
internal sealed record ListenersState(IReadOnlyList<ListenerState> Sockets, int Gives, int Takes, string? StoredAs = null);

/// <param name="Descriptor">Of the connection.</param>
/// <param name="Knowledge">What its protocol knows of it.</param>
internal sealed record KeptState(int Descriptor, byte[] Knowledge);

/// <param name="IsLookedFor">Whether anybody has wanted one yet.</param>
/// <param name="Homes">Where groups are made.</param>
/// <param name="Lacking">Why there are none, by controller.</param>
internal sealed record GroupsState(bool IsLookedFor, IReadOnlyList<ControlHome> Homes, IReadOnlyDictionary<string, string> Lacking);

internal sealed record GroupFolder(ControlHome Home, string Folder);

internal sealed record AppSaved
{
    public required AppSettings Settings { get; init; }

    public required AppState State { get; init; }

    public DateTimeOffset? StateSince { get; init; }

    public string? Reason { get; init; }

    public int Generations { get; init; }

    public int Restarts { get; init; }

    public int Recycles { get; init; }

    public int Attempts { get; init; }

    public int? Scaled { get; init; }

    public bool IsHeldOnRequest { get; init; }

    /// <summary>What visitors see who are answered 503; null: a page of the daemon's.</summary>
    public byte[]? Page { get; init; }

    /// <summary>Until when visitors wait before they are answered 503; null where they do not.</summary>
    public DateTimeOffset? QueueUntil { get; init; }

    /// <summary>Why it is held then.</summary>
    public string QueueReason { get; init; } = "";

    /// <summary>Its processes were started before sockets of shared addresses were opened anew: they are to be replaced.</summary>
    public bool IsOnOtherWay { get; init; }

    /// <summary>The code that was deployed last; null: nobody looks for changes of it.</summary>
    public string? Code { get; init; }

    public bool IsBuildStale { get; init; }

    /// <summary>Null where its addresses are closed.</summary>
    public ListenersState? Listeners { get; init; }

    /// <summary>The generation that serves.</summary>
    public GenerationState? Current { get; init; }

    /// <summary>Those that are being drained.</summary>
    public IReadOnlyList<GenerationState> Leaving { get; init; } = [];

    /// <summary>Connections that are kept while there is no process; null: nobody stands at the door.</summary>
    public IReadOnlyList<KeptState>? Kept { get; init; }

    public IReadOnlyList<AppEvent> Events { get; init; } = [];

    /// <summary>The last lines of its output.</summary>
    public IReadOnlyList<string> Output { get; init; } = [];

    /// <summary>How many there have been.</summary>
    public long Printed { get; init; }

    /// <summary>Through which more comes.</summary>
    public IReadOnlyList<PipeState> Pipes { get; init; } = [];

    /// <summary>Its processes that go on.</summary>
    [JsonIgnore]
    public IEnumerable<InstanceState> Instances => Leaving.Append(Current).SelectMany(static generation => generation?.Slots ?? [])
        .SelectMany(static slot => slot.Leaving.Append(slot.Current)).OfType<InstanceState>();

    /// <summary>Ends its processes, which nobody looks after, and closes what nobody else does: what is accepted on, and where connections wait.</summary>
    public void Abandon()
    {
        ForeignDescriptor.Close([
            .. Listeners is { } its ? its.Sockets.Select(static socket => socket.Descriptor).Concat([its.Gives, its.Takes]) : [],
            .. (Kept ?? []).Select(static kept => kept.Descriptor)]);
        foreach (var instance in Instances)
        {
            instance.Abandon();
        }
    }
}

/// <param name="Number">Counted from 1.</param>
/// <param name="Settings">Those that it was started with.</param>
/// <param name="App">What it runs.</param>
/// <param name="Code">The copy that it runs from; null: the application's own folder.</param>
/// <param name="Started">Processes that have been started for it so far.</param>
/// <param name="Crashes">When processes have ended, in ms of the machine's clock.</param>
/// <param name="Restarts">Of places that are no more.</param>
/// <param name="Recycles">Of places that are no more.</param>
/// <param name="HasSuccessor">Of one that is being drained: whether others take its connections.</param>
/// <param name="Slots">Its places.</param>
internal sealed record GenerationState(
    int Number, AppSettings Settings, RunnableApp App, CodeState? Code, int Started, IReadOnlyList<long> Crashes, int Restarts, int Recycles, bool HasSuccessor, IReadOnlyList<SlotState> Slots);

internal sealed record CodeState(string Parent, string Name, string Signature);

/// <param name="Restarts">Processes that have been put in the place of one that crashed or hung.</param>
/// <param name="Recycles">Or of one that was well.</param>
/// <param name="Current">The process that serves; null where none does.</param>
/// <param name="Leaving">Processes that give their connections away and end.</param>
/// <param name="IsLeaving">Whether it is no place of its generation any more.</param>
internal sealed record SlotState(int Restarts, int Recycles, InstanceState? Current, IReadOnlyList<InstanceState> Leaving, bool IsLeaving);

/// <param name="Id">Names its sockets.</param>
/// <param name="Process">Its number.</param>
/// <param name="StartTime">See <see cref="ServedProcess.StartTime"/>.</param>
/// <param name="Started">For people.</param>
/// <param name="ServesSince">Ticks of the machine's clock.</param>
/// <param name="Private">Where it is asked for its health.</param>
/// <param name="Channel">Where it is told what to do.</param>
/// <param name="Output">The pipe that it prints to; -1 where nothing will come any more.</param>
/// <param name="Error">The same of its standard error.</param>
/// <param name="Lacking">Why limits are not in force, by controller.</param>
/// <param name="DescriptorsMost">More of them the daemon does not have.</param>
/// <param name="Groups">Its control groups; null where it has none.</param>
/// <param name="Lifeline">The connection by which it knows that there is a daemon; -1 where there is none.</param>
internal sealed record InstanceState(
    string Id, int Process, ulong StartTime, DateTimeOffset Started, long ServesSince, ListenerState Private, ListenerState Channel, int Output, int Error,
    IReadOnlyDictionary<string, string> Lacking, long DescriptorsMost, IReadOnlyList<GroupFolder>? Groups, int Lifeline = -1)
{
    private int _isAbandoned;

    /// <summary>Ends it: nobody looks after it. Once: what it had open may be another's then.</summary>
    public void Abandon()
    {
        if (Interlocked.Exchange(ref _isAbandoned, 1) == 0)
        {
            ServedProcess.Kill(Process, StartTime);
            ForeignDescriptor.Close([Private.Descriptor, Channel.Descriptor]);
        }
    }
}

/// <param name="Descriptor">The end that is read.</param>
/// <param name="Before">What has been read and not been passed on.</param>
internal sealed record PipeState(int Descriptor, byte[] Before);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, UseStringEnumConverter = true)]
[JsonSerializable(typeof(DaemonState))]
[JsonSerializable(typeof(StateHead))]
internal sealed partial class StateJson : JsonSerializerContext
{
    private static readonly Lazy<StateJson> s_short = new(static () => new StateJson(new JsonSerializerOptions(Default!.Options) { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping }));

    /// <summary>Writes characters as they are, where others take six bytes for each: no page is made of it.</summary>
    public static StateJson Short => s_short.Value;

    /// <summary>Bytes of a text in it, with its quotes and a comma. A line that was cut may end in half a character, for which another stands.</summary>
    public static int LengthOf(string text) => JsonSerializer.SerializeToUtf8Bytes(text, Short.String).Length + 1;
}
