// Tells the CGI variables that say something about the request from all others (RFC 3875 §4.1 and what web servers add). Names only, no values.
using System.Runtime.CompilerServices;

namespace Millrace.Protocols.Cgi;

/// <summary>The variables a request is made of. Those before <see cref="ScriptName"/> must not be there twice with different values.</summary>
internal enum CgiVariable
{
    RequestMethod,
    RequestUri,
    ContentLength,
    HttpHost,
    MillracePath,
    ScriptName,
    PathInfo,
    QueryString,
    ServerProtocol,
    ServerName,
    ServerPort,
    ServerAddress,
    RemoteAddress,
    RemotePort,
    ContentType,
    Https,
    RequestScheme,
    ServerSoftware,
    Other,
}

/// <summary>Room for one value of each known variable.</summary>
[InlineArray((int)CgiVariable.Other)]
internal struct CgiVariableValues
{
    private Slice _first;
}

/// <summary>Recognises variable names.</summary>
internal static class CgiVariableNames
{
    /// <summary>Which variable this is, by length first. <c>HTTP_*</c> is not asked here.</summary>
    public static CgiVariable Recognise(ReadOnlySpan<byte> name) => name.Length switch
    {
        5 => Is(name, "HTTPS"u8, CgiVariable.Https),
        9 => Is(name, "PATH_INFO"u8, CgiVariable.PathInfo),
        11 => RecogniseEleven(name),
        12 => name[0] == 'Q' ? Is(name, "QUERY_STRING"u8, CgiVariable.QueryString) : Is(name, "CONTENT_TYPE"u8, CgiVariable.ContentType),
        13 => Is(name, "MILLRACE_PATH"u8, CgiVariable.MillracePath),
        14 => RecogniseFourteen(name),
        15 => name[7] == 'P' ? Is(name, "SERVER_PROTOCOL"u8, CgiVariable.ServerProtocol) : Is(name, "SERVER_SOFTWARE"u8, CgiVariable.ServerSoftware),
        _ => CgiVariable.Other,
    };

    // The eighth letter tells REQUEST_|URI, SERVER_N|AME, REMOTE_P|ORT ... apart but for one pair each.
    private static CgiVariable RecogniseEleven(ReadOnlySpan<byte> name) => name[7] switch
    {
        (byte)'_' => Is(name, "REQUEST_URI"u8, CgiVariable.RequestUri),
        (byte)'N' => name[1] == 'E' ? Is(name, "SERVER_NAME"u8, CgiVariable.ServerName) : Is(name, "SCRIPT_NAME"u8, CgiVariable.ScriptName),
        (byte)'P' => name[0] == 'S' ? Is(name, "SERVER_PORT"u8, CgiVariable.ServerPort) : Is(name, "REMOTE_PORT"u8, CgiVariable.RemotePort),
        (byte)'A' => name[0] == 'S' ? Is(name, "SERVER_ADDR"u8, CgiVariable.ServerAddress) : Is(name, "REMOTE_ADDR"u8, CgiVariable.RemoteAddress),
        _ => CgiVariable.Other,
    };

    private static CgiVariable RecogniseFourteen(ReadOnlySpan<byte> name) => name[8] switch
    {
        (byte)'M' => Is(name, "REQUEST_METHOD"u8, CgiVariable.RequestMethod),
        (byte)'S' => Is(name, "REQUEST_SCHEME"u8, CgiVariable.RequestScheme),
        (byte)'L' => Is(name, "CONTENT_LENGTH"u8, CgiVariable.ContentLength),
        _ => CgiVariable.Other,
    };

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static CgiVariable Is(ReadOnlySpan<byte> name, ReadOnlySpan<byte> expected, CgiVariable variable) =>
        name.SequenceEqual(expected) ? variable : CgiVariable.Other;
}
