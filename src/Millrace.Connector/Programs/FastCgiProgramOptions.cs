// Every limit of a FastCGI program behind MapFastCgi: its name, its default and its range.

namespace Millrace.Connector;

/// <summary>How requests go to a FastCGI program, such as PHP. Defaults are safe for a program that faces hostile visitors, and for visitors of a program that has been broken into.</summary>
public sealed class FastCgiProgramOptions
{
    // ---- files ----

    private const string DefaultFallback = "index.php";

    /// <summary>The folder of the scripts and of the files beside them; a full path. Null: the program answers every request itself, and no file is looked for. Default null.</summary>
    public string? Root { get; set; }

    /// <summary>The same folder as the program sees it, where that is in a container or behind chroot. Null: the same. Default null.</summary>
    public string? ScriptRoot { get; set; }

    /// <summary>What the names of scripts end in; no other file is ever run. At least one, each '.' and letters or digits. Default <c>.php</c>.</summary>
    public IList<string> Suffixes { get; } = [".php"];

    /// <summary>Files that answer for their folder, the first that is there. Default <c>index.php</c>, <c>index.html</c>.</summary>
    public IList<string> Index { get; } = ["index.php", "index.html"];

    /// <summary>The script below <see cref="Root"/> that answers where there is no file; null: 404. Default <c>index.php</c>.</summary>
    public string? Fallback { get; set; } = DefaultFallback;

    /// <summary>Whether files that are no scripts are sent. Only those of a known type, and none whose name, or whose folder's, begins with '.' (but <c>.well-known</c>). Default true.</summary>
    public bool ServeFiles { get; set; } = true;

    /// <summary>Types of files by what their names end in (<c>.odt</c>), beside those that ASP.NET Core knows, or instead. Default: what visitors bring to sites in PHP and ASP.NET Core does not know, such as
    /// <c>.odt</c>, <c>.flac</c>, <c>.mkv</c>, <c>.vtt</c>, <c>.7z</c>, <c>.heic</c>.</summary>
    public IDictionary<string, string> FileTypes { get; } = new Dictionary<string, string>(FileTypeList.Further, StringComparer.OrdinalIgnoreCase);

    /// <summary>Whether a symbolic link may lead out of <see cref="Root"/>. Default false.</summary>
    public bool FollowLinks { get; set; }

    /// <summary>Where a script may have files sent from that visitors cannot ask for: path (as in <c>X-Accel-Redirect: /protected/a.zip</c>) to folder. <c>X-Sendfile</c> may name a file below one of
    /// the folders. Default empty: nowhere.</summary>
    public IDictionary<string, string> SendFileRoots { get; } = new Dictionary<string, string>(StringComparer.Ordinal);

    // ---- variables ----

    /// <summary>Further variables for the program; they replace those of the same name. Default empty.</summary>
    public IDictionary<string, string> Variables { get; } = new Dictionary<string, string>(StringComparer.Ordinal);

    /// <summary>SERVER_NAME. Null: what the visitor says (Host). Default null.</summary>
    public string? ServerName { get; set; }

    // ---- connections ----

    /// <summary>Requests at the same time, which are as many connections; others wait for <see cref="ConnectTimeout"/>. Range 1 to 1,000,000. Default 1,000.</summary>
    public int ConnectionsMax { get; set; } = 1_000;

    /// <summary>Whether a connection is kept for the next request. Each one that is kept holds a worker of php-fpm. Default false.</summary>
    public bool KeepConnections { get; set; }

    /// <summary>How long a kept connection that nobody uses stays open. Range 1 s to 1 day. Default 30 s.</summary>
    public TimeSpan IdleTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>How long a request may wait for one of <see cref="ConnectionsMax"/>, and as long again until a new one has been accepted; then it is answered 503. Range 1 ms to 1 hour. Default 10 s.</summary>
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long the program may say nothing, and take nothing of the body; then it is answered 504. Range 1 ms to 1 day. Default 60 s.</summary>
    public TimeSpan ReadTimeout { get; set; } = TimeSpan.FromSeconds(60);

    // ---- sizes ----

    /// <summary>Bytes of a response's head. Range 256 to 1,048,576. Default 65,536.</summary>
    public int HeadBytesMax { get; set; } = 64 * 1024;

    /// <summary>Lines of a response's head. Range 1 to 10,000. Default 200.</summary>
    public int HeadFieldsMax { get; set; } = 200;

    /// <summary>Bytes of what the program prints (STDERR) that reach the log for each request. Range 0 to 1,048,576. Default 16,384.</summary>
    public int ErrorBytesMax { get; set; } = 16 * 1024;

    /// <summary>Whether the body of a request is taken in before the program begins, so that a visitor who sends slowly holds none of its processes; what is beyond 64 KiB is in a temporary file meanwhile.
    /// The server limits the length. Null: for a pool of processes, and not for an address. Default null.</summary>
    public bool? TakeBodyFirst { get; set; }

    /// <summary>Bytes of a body whose length the visitor does not say, or that middleware has made longer than he says: it has to be known before the program begins. A longer one is answered 413. Range 0 to 1 TiB. Default 32 MiB.</summary>
    public long UnknownLengthMax { get; set; } = 32 * 1024 * 1024;

    /// <summary>Bytes of an answer that are kept in memory for a visitor who reads slowly, so that a process of a pool is free before he has read them; 0: none, nor in files, and it is his as long as he
    /// reads. Means nothing for an address. Range 0 to 1 GiB. Default 1 MiB.</summary>
    public int AnswerBufferMax { get; set; } = 1024 * 1024;

    /// <summary>Bytes that may be kept for all such visitors together, each counted with <see cref="AnswerBufferMax"/>. Who comes then holds his process as long as he reads. Range 0 to 1 TiB. Default 64 MiB.</summary>
    public long AnswerBuffersMax { get; set; } = 64 * 1024 * 1024;

    /// <summary>Bytes that may be kept for all such visitors together of what is beyond <see cref="AnswerBufferMax"/>, in temporary files (in the folder ASPNETCORE_TEMP, or the system's), so that a process is free
    /// as soon as it has answered; 0: none. Where there is no room he holds his process as long as he reads. Range 0 to 1 TiB. Default 1 GiB.</summary>
    public long AnswerFilesMax { get; set; } = 1024 * 1024 * 1024;

    /// <summary>Measures <see cref="ReadTimeout"/>.</summary>
    internal TimeProvider Clock { get; init; } = TimeProvider.System;

    /// <summary>What is out of its range, a sentence each; empty: nothing is.</summary>
    public IReadOnlyList<string> Validate()
    {
        var found = new List<string>();
        if (Root is not null && (!Path.IsPathFullyQualified(Root) || !Directory.Exists(Root)))
        {
            found.Add($"Root is {Root}, and is to be the full path of a folder.");
        }
        if (Root is null && SendFileRoots.Count == 0 && ScriptRoot is not null)
        {
            found.Add("ScriptRoot needs Root.");
        }
        foreach (string suffix in FileTypes.Keys.Where(static suffix => suffix.Length < 2 || suffix[0] != '.'))
        {
            found.Add($"FileTypes has {suffix}; what a name ends in begins with '.'.");
        }
        if (Suffixes.Count == 0 || Suffixes.Any(static suffix => suffix.Length < 2 || suffix[0] != '.' || !suffix.Skip(1).All(char.IsAsciiLetterOrDigit)))
        {
            found.Add("Suffixes is to hold at least one, each '.' and letters or digits.");
        }
        if (Fallback is { } fallback and not DefaultFallback && !Suffixes.Any(suffix => fallback.EndsWith(suffix, StringComparison.Ordinal)))
        {
            found.Add($"Fallback is {fallback}, which ends in none of Suffixes: it is a script.");
        }
        foreach (var (path, folder) in SendFileRoots)
        {
            if (!path.StartsWith('/') || !path.EndsWith('/') || !Path.IsPathFullyQualified(folder) || !Directory.Exists(folder))
            {
                found.Add($"SendFileRoots has {path} for {folder}: a path begins and ends with '/', and its folder is the full path of one.");
            }
        }
        Number(nameof(ConnectionsMax), ConnectionsMax, 1, 1_000_000);
        Number(nameof(HeadBytesMax), HeadBytesMax, 256, 1024 * 1024);
        Number(nameof(HeadFieldsMax), HeadFieldsMax, 1, 10_000);
        Number(nameof(ErrorBytesMax), ErrorBytesMax, 0, 1024 * 1024);
        Number(nameof(UnknownLengthMax), UnknownLengthMax, 0, 1L << 40);
        Number(nameof(AnswerBufferMax), AnswerBufferMax, 0, 1 << 30);
        Number(nameof(AnswerBuffersMax), AnswerBuffersMax, 0, 1L << 40);
        Number(nameof(AnswerFilesMax), AnswerFilesMax, 0, 1L << 40);
        Time(nameof(IdleTimeout), IdleTimeout, TimeSpan.FromSeconds(1), TimeSpan.FromDays(1));
        Time(nameof(ConnectTimeout), ConnectTimeout, TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1));
        Time(nameof(ReadTimeout), ReadTimeout, TimeSpan.FromMilliseconds(1), TimeSpan.FromDays(1));
        return found;

        void Number(string name, long value, long min, long max)
        {
            if (value < min || value > max)
            {
                found.Add(FormattableString.Invariant($"{name} is {value}; it may be {min} to {max}."));
            }
        }

        void Time(string name, TimeSpan value, TimeSpan min, TimeSpan max)
        {
            if (value < min || value > max)
            {
                found.Add(FormattableString.Invariant($"{name} is {value}; it may be {min} to {max}."));
            }
        }
    }
}
