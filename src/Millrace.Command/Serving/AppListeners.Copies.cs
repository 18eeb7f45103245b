// Copies of an application's sockets, for the server that answers in its place and for processes that inherit them. They are taken while the sockets are open: the number of one that has been closed may be another
// application's a moment later, and so whoever was given that would have what is not his.

using System.Globalization;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed partial class AppListeners
{
    /// <summary>How many descriptors a process inherits.</summary>
    public int InheritedCount => _sockets.Count + 2;

    /// <summary>Copies for a process that is about to be started.</summary>
    /// <exception cref="MillraceStartException">They have been closed, or there is no room.</exception>
    public InheritedSockets CopyForProcess() => WhileOpen(() =>
    {
        var copies = new List<int>();
        try
        {
            _sockets.ForEach(socket => copies.Add(Copy(socket.Descriptor)));
            string urls = string.Join(';', _sockets.Select((socket, i) => Inherited(socket.Address, copies[i])));
            copies.Add(Copy(_gives));
            copies.Add(Copy(_takes));
            return new InheritedSockets(copies, urls, string.Create(CultureInfo.InvariantCulture, $"{copies[^2]},{copies[^1]}"));
        }
        catch
        {
            copies.ForEach(static copy => _ = SystemCalls.Close(copy));
            throw;
        }
    });

    /// <summary>Addresses of copies of the descriptors, for a server in this process, which closes them.</summary>
    /// <exception cref="MillraceStartException">They have been closed, or there is no room.</exception>
    public string Copy() => WhileOpen(() => string.Join(';', _sockets.Select(static socket => Inherited(socket.Address, Copy(socket.Descriptor)))));

    /// <summary>A copy of the end of the channel at which connections are given, for whoever closes it.</summary>
    /// <exception cref="MillraceStartException">It has been closed, or there is no room.</exception>
    public int CopyOfGives() => WhileOpen(() => Copy(_gives));

    /// <summary>The same of that at which they are taken.</summary>
    /// <exception cref="MillraceStartException">It has been closed, or there is no room.</exception>
    public int CopyOfTakes() => WhileOpen(() => Copy(_takes));

    /// <summary>A copy of a descriptor.</summary>
    /// <exception cref="MillraceStartException">There is no room for it.</exception>
    public static int Copy(int descriptor)
    {
        int copy = SystemCalls.Fcntl(descriptor, SystemCalls.F_DUPFD_CLOEXEC, 3);
        return copy >= 0 ? copy : throw new MillraceStartException($"A socket cannot be opened again: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
    }

    private T WhileOpen<T>(Func<T> copy)
    {
        lock (_lock)
        {
            return !_isClosed ? copy() : throw new MillraceStartException("Its addresses have been closed meanwhile.");
        }
    }

    private static string Inherited(ListenAddress address, int descriptor) => new ListenAddress
    {
        Protocol = address.Protocol,
        Kind = EndPointKind.Inherited,
        InheritedDescriptor = descriptor,
        Allow = address.Allow,
        IsUncounted = address.IsUncounted,
    }.ToString();
}

/// <summary>What a process inherits of an application's sockets; closed here behind its start.</summary>
/// <param name="descriptors">All of them, not inherited yet.</param>
/// <param name="urls">Addresses of those that are listened on, separated by ';'.</param>
/// <param name="move">The ends of the channel through which connections move from one generation to the next: where they are given, and where they are taken.</param>
internal sealed class InheritedSockets(IReadOnlyList<int> descriptors, string urls, string move) : IDisposable
{
    private bool _isDisposed;

    public IReadOnlyList<int> Descriptors => descriptors;

    public string Urls => urls;

    public string Move => move;

    public void Dispose()
    {
        foreach (int descriptor in _isDisposed ? [] : descriptors)
        {
            _ = SystemCalls.Close(descriptor);
        }
        _isDisposed = true;
    }
}
