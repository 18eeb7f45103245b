// Types of files that visitors bring to sites in PHP, or that such sites are made of, and that the list of ASP.NET Core lacks (it is that of IIS). The types are those of Debian's /etc/mime.types.

namespace Millrace.Connector;

internal static class FileTypeList
{
    public static IReadOnlyDictionary<string, string> Further { get; } = new Dictionary<string, string>
    {
        [".7z"] = "application/x-7z-compressed",
        [".flac"] = "audio/flac",
        [".heic"] = "image/heic",
        [".heif"] = "image/heif",
        [".m4b"] = "audio/mp4",
        [".mka"] = "audio/x-matroska",
        [".mkv"] = "video/x-matroska",
        [".odf"] = "application/vnd.oasis.opendocument.formula",
        [".odg"] = "application/vnd.oasis.opendocument.graphics",
        [".odp"] = "application/vnd.oasis.opendocument.presentation",
        [".ods"] = "application/vnd.oasis.opendocument.spreadsheet",
        [".odt"] = "application/vnd.oasis.opendocument.text",
        [".ogg"] = "audio/ogg",
        [".opus"] = "audio/ogg",
        [".srt"] = "application/x-subrip",
        [".vtt"] = "text/vtt",
        [".zip"] = "application/zip",
    };
}
