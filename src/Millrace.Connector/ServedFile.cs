// A file that is sent as it is. Who may write in one folder on the way to it can have its path lead elsewhere between a look and an open: it is found once, and what has been found is judged (what it is, and
// where it lies) and sent, as long as it was then. Only what has been judged is opened for reading: nobody waits for a pipe, and no device notices.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Net.Http.Headers;
using Microsoft.Win32.SafeHandles;
using Millrace.AspNetCore;
using Millrace.Exchanges;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed class ServedFile : IDisposable
{
    // What the kernel adds to the path of a file that another one has taken the place of since.
    private const string Gone = " (deleted)";

    private readonly SafeFileHandle _file;
    private readonly long _length;
    private readonly DateTimeOffset _changed;

    private ServedFile(SafeFileHandle file, string place)
    {
        _file = file;
        Place = place;
        _length = RandomAccess.GetLength(file);
        _changed = ChangedAt(file);
    }

    /// <summary>Its own path, without links.</summary>
    public string Place { get; }

    /// <summary>Opens a file. Never waits for a writer.</summary>
    /// <param name="path">Links in it are followed.</param>
    /// <param name="folders">The file must lie below one of them. Null: it may lie anywhere.</param>
    /// <param name="errno">Why it cannot be read, although it is there and may be sent, or why nobody can tell; otherwise 0.</param>
    /// <returns>Null: it cannot be sent.</returns>
    public static ServedFile? Open(string path, IReadOnlyList<FolderPlace>? folders, out int errno)
    {
        errno = 0;
        if (path.Contains('\0', StringComparison.Ordinal))
        {
            return null;
        }
        string[]? before = folders?.Select(static folder => folder.Now).ToArray();
        if (!OperatingSystem.IsLinux())
        {
            return OpenByPath(path, before);
        }
        using SafeFileHandle? found = Open(path, SystemCalls.O_PATH, out int why);
        if (found is null)
        {
            errno = IsShortage(why) ? why : 0;
            return null;
        }
        int descriptor = (int)found.DangerousGetHandle();
        string itself = SystemCalls.PathOf(descriptor);
        if (FileFacts.Of(descriptor, out _) is not { IsFile: true } || PlaceOf(itself) is not { } place || !(MayLieAt(place, before) || MayLieAt(place, folders?.Select(static folder => folder.Now))))
        {
            return null;
        }
        SafeFileHandle? file = Open(itself, SystemCalls.O_NONBLOCK | SystemCalls.O_NOCTTY, out errno);
        return file is null ? null : new ServedFile(file, place);
    }

    /// <summary>Whether a path leads to a regular file: whoever opens a pipe waits.</summary>
    public static bool IsRegular(string path) => OperatingSystem.IsLinux() ? FileFacts.Behind(path, out _) is { IsFile: true } : File.Exists(path);

    /// <summary>What a visitor is told of a file that cannot be sent.</summary>
    public static int StatusOf(int errno) => errno switch
    {
        0 or SystemCalls.ENOENT or SystemCalls.ENOTDIR => StatusCodes.Status404NotFound,
        SystemCalls.EACCES or SystemCalls.EPERM => StatusCodes.Status403Forbidden,
        _ when IsShortage(errno) => StatusCodes.Status503ServiceUnavailable,
        _ => StatusCodes.Status500InternalServerError,
    };

    /// <summary>The same for the log.</summary>
    public static string Describe(int errno) =>
        SystemCalls.Describe(errno) + (errno == SystemCalls.EMFILE ? ". Allow the process more open files (LimitNOFILE= of its unit, ulimit -n)." : ".");

    /// <summary>Sends it with ranges and conditions, as <see cref="Results"/> does.</summary>
    public async Task SendAsync(HttpContext context, string type)
    {
        // Results.Stream decides about ranges and conditions. On Millrace its read yields nothing, and only says from where: then the server sends that part itself.
        IOpenFileFeature? server = context.Response.Body is ResponseStream ? context.Features.Get<IHttpResponseBodyFeature>() as IOpenFileFeature : null;
        await using var body = new ServedBody(_file, _length, isOnlyAskedFor: server is not null);
        var tag = new EntityTagHeaderValue(FormattableString.Invariant($"\"{_changed.ToUnixTimeMilliseconds():x}-{_length:x}\""));
        CancellationToken aborted = context.RequestAborted;
        context.RequestAborted = server is not null ? CancellationToken.None : aborted;     // it is said of a client that has ended its half as well, who is answered: the server knows the difference
        await Results.Stream(body, type, lastModified: _changed, entityTag: tag, enableRangeProcessing: true).ExecuteAsync(context).ConfigureAwait(false);
        context.RequestAborted = aborted;
        if (server is not null && body.IsAskedFor)
        {
            try
            {
                await server.SendFileAsync(_file, body.Position, context.Response.ContentLength ?? _length - body.Position, context.RequestAborted).ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
                // The visitor has left, as with Response.SendFileAsync.
            }
        }
    }

    public void Dispose() => _file.Dispose();

    private static SafeFileHandle? Open(string path, int flags, out int errno)
    {
        int descriptor = SystemCalls.Open(path, flags | SystemCalls.O_CLOEXEC);
        errno = descriptor < 0 ? SystemCalls.Errno : 0;
        return descriptor < 0 ? null : new SafeFileHandle(descriptor, ownsHandle: true);
    }

    // Elsewhere applications are written, and not visited.
    private static ServedFile? OpenByPath(string path, string[]? folders) =>
        RealPath.Of(path) is { } place && File.Exists(place) && MayLieAt(place, folders) ? new ServedFile(File.OpenHandle(place), place) : null;

    private static bool MayLieAt(string place, IEnumerable<string>? folders) => folders is null || folders.Any(folder => RealPath.IsBelow(place, folder));

    private static string? PlaceOf(string itself)
    {
        string? place = new FileInfo(itself).LinkTarget;
        return place?.EndsWith(Gone, StringComparison.Ordinal) == true ? place[..^Gone.Length] : place;
    }

    private static bool IsShortage(int errno) => errno is SystemCalls.EMFILE or SystemCalls.ENFILE or SystemCalls.ENOMEM or SystemCalls.EAGAIN;     // the last: somebody has a lease on it (fcntl(2)), and is about to let it go

    // File systems keep times of which .NET has no word: these are the end of all time.
    private static DateTimeOffset ChangedAt(SafeFileHandle file)
    {
        try
        {
            return File.GetLastWriteTimeUtc(file);
        }
        catch (ArgumentOutOfRangeException)
        {
            return DateTimeOffset.MaxValue;
        }
    }
}
