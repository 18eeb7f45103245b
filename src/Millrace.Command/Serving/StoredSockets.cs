// systemd keeps what a daemon listens on while it is started again (sd_notify(3), FDSTORE; FileDescriptorStoreMax= of its unit): nobody is refused meanwhile, who connects
// waits, and connections that were kept lie in the channel between generations. The names say whose they are: millrace.APP.USER.gives, millrace.APP.USER.takes, and
// millrace.APP.USER.listen.FILE for what is listened on, with the file that goes with it. USER is a number, or "none": what processes of one user have, and may have left behind, is never another user's.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class StoredSockets
{
    private const string Prefix = "millrace.";
    private const string NoFile = "none";
    private const int FirstPassed = 3;

    private readonly ServiceManager? _manager;
    private readonly Lock _lock = new();
    private readonly List<(string Name, int Descriptor)> _stored = [];

    private StoredSockets(ServiceManager? manager) => _manager = manager;

    /// <summary>Whose what an application listens on is; unlike that of every other application, and of every other user.</summary>
    public static string KeyOf(AppSettings settings)
    {
        try
        {
            return string.Create(CultureInfo.InvariantCulture, $"{settings.Name}.{OtherUser.Find(settings.User)?.Rights.User ?? SystemCalls.GetEffectiveUser()}");
        }
        catch (MillraceStartException)
        {
            return $"{settings.Name}.none";     // there is no such user, and so no process of his
        }
    }

    /// <summary>Where nobody keeps anything.</summary>
    public static StoredSockets None { get; } = new(manager: null);

    /// <summary>Whether what is listened on is kept when the daemon ends.</summary>
    public bool IsKept => _manager is not null;

    /// <summary>Those of a daemon that is started by systemd.</summary>
    /// <param name="manager">Systemd.</param>
    /// <param name="read">A variable of the environment.</param>
    /// <param name="process">The number of this process.</param>
    public static StoredSockets Of(ServiceManager manager, Func<string, string?> read, int process)
    {
        if (!manager.Keeps)
        {
            return None;
        }
        var stored = new StoredSockets(manager);
        string[] names = (read("LISTEN_FDNAMES") ?? "").Split(':');
        bool isMeant = read("LISTEN_PID") == process.ToString(CultureInfo.InvariantCulture);
        for (int i = 0; isMeant && i < names.Length && ushort.TryParse(read("LISTEN_FDS"), NumberStyles.None, CultureInfo.InvariantCulture, out ushort count) && i < count; i++)
        {
            if (names[i].StartsWith(Prefix, StringComparison.Ordinal))
            {
                stored._stored.Add((names[i], FirstPassed + i));
            }
        }
        return stored;
    }

    /// <summary>The ends of the channel between the generations of an application; null where they are not kept.</summary>
    public (int Gives, int Takes)? TakeChannel(string app)
    {
        lock (_lock)
        {
            int gives = Find($"{Prefix}{app}.gives"), takes = Find($"{Prefix}{app}.takes");
            bool isBoth = gives >= 0 && takes >= 0 && AppListeners.IsChannel(gives) && AppListeners.IsChannel(takes);
            _stored.RemoveAll(its => isBoth && (its.Descriptor == gives || its.Descriptor == takes));
            return isBoth ? (gives, takes) : null;
        }
    }

    /// <summary>What an application has listened on at an address; none where that is not kept.</summary>
    public IReadOnlyList<ListenSocket> Take(string app, ListenAddress address)
    {
        string prefix = $"{Prefix}{app}.listen.";
        (string Name, int Descriptor)[] its;
        lock (_lock)
        {
            (string Name, int Descriptor)[] there = [.. _stored.Where(each => ResumedListeners.IsAt(each.Descriptor, address))];
            _stored.RemoveAll(there.Contains);
            its = [.. there.Where(each => each.Name.StartsWith(prefix, StringComparison.Ordinal))];
            foreach (var (name, descriptor) in there.Except(its))
            {
                _manager?.Forget(name);
                _ = SystemCalls.Close(descriptor);      // another's, who listens here no more: the address is to be opened anew
            }
        }
        // Their file system may stand still, and others want theirs.
        return [.. its.Select(each => ResumedListeners.TryTake(each.Descriptor, address, each.Name[prefix.Length..] is var file && file == NoFile ? null : file.Replace('-', ':'))!)];
    }

    /// <summary>Has systemd keep what an application listens on.</summary>
    /// <param name="app">Its <see cref="KeyOf"/>.</param>
    /// <param name="listeners">What that is.</param>
    public void Keep(string app, ListenersState listeners)
    {
        _manager?.Store($"{Prefix}{app}.gives", [listeners.Gives]);
        _manager?.Store($"{Prefix}{app}.takes", [listeners.Takes]);
        foreach (var same in listeners.Sockets.GroupBy(FileOf))
        {
            _manager?.Store($"{Prefix}{app}.listen.{same.Key}", [.. same.Select(static socket => socket.Descriptor)]);
        }
    }

    /// <summary>It is closed.</summary>
    public void Forget(string app, ListenersState listeners)
    {
        foreach (string name in listeners.Sockets.Select(static socket => "listen." + FileOf(socket)).Distinct().Append("gives").Append("takes"))
        {
            _manager?.Forget($"{Prefix}{app}.{name}");
        }
    }

    /// <summary>What nobody has taken is nobody's any more.</summary>
    public void CloseRest()
    {
        lock (_lock)
        {
            foreach (string name in _stored.Select(static its => its.Name).Distinct())
            {
                _manager?.Forget(name);
            }
            _stored.ForEach(static its => _ = SystemCalls.Close(its.Descriptor));
            _stored.Clear();
        }
    }

    private int Find(string name) => _stored.Where(its => its.Name == name).Select(static its => its.Descriptor).DefaultIfEmpty(-1).First();

    // A name in systemd's store has no colon.
    private static string FileOf(ListenerState socket) => socket.File?.Replace(':', '-') ?? NoFile;
}
