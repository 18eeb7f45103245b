// Every message of MapFastCgi: one catalogue. Visitors are told a status and nothing else; why is here.

using Microsoft.Extensions.Logging;

namespace Millrace.Connector;

internal static partial class ProgramLog
{
    [LoggerMessage(1, LogLevel.Error, "{Method} {Path}: {Address} has not answered, and the visitor has {Status}. {Why}")]
    public static partial void NoAnswer(ILogger logger, string method, string path, string address, int status, string why);

    [LoggerMessage(2, LogLevel.Error, "{Method} {Path}: the answer of {Address} has broken off, and so has the visitor's. {Why}")]
    public static partial void Broken(ILogger logger, string method, string path, string address, string why);

    [LoggerMessage(3, LogLevel.Warning, "{Method} {Path}: {Address} has printed: {Text}")]
    public static partial void Printed(ILogger logger, string method, string path, string address, string text);

    [LoggerMessage(4, LogLevel.Error, "{Method} {Path}: the script has asked for {File} to be sent, which is no file below SendFileRoots; the visitor has 502.")]
    public static partial void MayNotSend(ILogger logger, string method, string path, string file);

    [LoggerMessage(5, LogLevel.Warning, "{Method} {Path}: the answer of {Address} has bytes beyond ASCII in {Fields}, and the visitor has it without. Kestrel writes them where its ResponseHeaderEncodingSelector says Latin-1.")]
    public static partial void LeftOut(ILogger logger, string method, string path, string address, string fields);

    [LoggerMessage(6, LogLevel.Error, "{Method} {Path}: {File} cannot be read, and the visitor has {Status}. {Why}")]
    public static partial void CannotSend(ILogger logger, string method, string path, string file, int status, string why);

    [LoggerMessage(7, LogLevel.Warning, "{Address}: what a slow visitor has not taken cannot be kept in a temporary file, and the process is his as long as he reads. {Why}")]
    public static partial void CannotKeep(ILogger logger, string address, string why);

    /// <summary>Without control characters: a path cannot make another line of the log.</summary>
    public static string Plain(string text) => string.Concat(text.Select(static c => char.IsControl(c) ? '?' : c));
}
