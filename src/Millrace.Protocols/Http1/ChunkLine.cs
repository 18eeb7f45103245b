// The line before each chunk as a table of states: chunk size, then extensions that are checked and thrown away.
//
//   chunk       = chunk-size [ chunk-ext ] CRLF chunk-data CRLF                                     (RFC 9112 §7.1)
//   chunk-size  = 1*HEXDIG
//   chunk-ext   = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )                     (RFC 9112 §7.1.1)
//   chunk-ext-name = token        chunk-ext-val = token / quoted-string                             (RFC 9110 §5.6)
//
//   SizeFirst --hex--> Size --BWS--> BeforeSemicolon --;--> NameFirst --tchar--> Name --BWS--> AfterName
//                       |  '----------------;-----------------^  ^                | |             |  |
//                       |                                        '--------;-------' '--=--.  .--=-'  '--;--> NameFirst
//                       CR                                                                v  v
//                       v                                                              ValueFirst --tchar--> Token
//                       Lf --LF--> End          (CR also from Name, Token, AfterQuote)    '--DQUOTE--> Quoted <--> Escape
//
// White space is bad white space: allowed around ";" and "=" only, so never directly before CRLF. A bare LF or CR anywhere is no transition at all:
// that is what keeps two servers from seeing two different bodies (CVE-2025-55315).

namespace Millrace.Protocols.Http1;

internal enum ChunkLineState : byte
{
    SizeFirst,
    Size,
    BeforeSemicolon,
    NameFirst,
    Name,
    AfterName,
    ValueFirst,
    Token,
    Quoted,
    Escape,
    AfterQuote,
    Lf,
    End,
    Broken,
}

internal static class ChunkLine
{
    /// <summary>The state after one more byte; <see cref="ChunkLineState.Broken"/> where the grammar has no way on.</summary>
    internal static ChunkLineState Next(ChunkLineState state, byte b) => state switch
    {
        ChunkLineState.SizeFirst => HttpChars.IsHexDigit(b) ? ChunkLineState.Size : ChunkLineState.Broken,
        ChunkLineState.Size => HttpChars.IsHexDigit(b) ? ChunkLineState.Size : AfterElement(b),
        ChunkLineState.BeforeSemicolon => HttpChars.IsWhite(b) ? state : b == ';' ? ChunkLineState.NameFirst : ChunkLineState.Broken,
        ChunkLineState.NameFirst => HttpChars.IsWhite(b) ? state : HttpChars.IsToken(b) ? ChunkLineState.Name : ChunkLineState.Broken,
        ChunkLineState.Name => HttpChars.IsToken(b) ? state : HttpChars.IsWhite(b) ? ChunkLineState.AfterName :
            b == '=' ? ChunkLineState.ValueFirst : AfterElement(b),
        ChunkLineState.AfterName => HttpChars.IsWhite(b) ? state : b == '=' ? ChunkLineState.ValueFirst :
            b == ';' ? ChunkLineState.NameFirst : ChunkLineState.Broken,
        ChunkLineState.ValueFirst => HttpChars.IsWhite(b) ? state : b == '"' ? ChunkLineState.Quoted :
            HttpChars.IsToken(b) ? ChunkLineState.Token : ChunkLineState.Broken,
        ChunkLineState.Token => HttpChars.IsToken(b) ? state : AfterElement(b),
        ChunkLineState.Quoted => b == '"' ? ChunkLineState.AfterQuote : b == '\\' ? ChunkLineState.Escape :
            HttpChars.IsLineText(b) ? state : ChunkLineState.Broken,
        ChunkLineState.Escape => HttpChars.IsLineText(b) ? ChunkLineState.Quoted : ChunkLineState.Broken,
        ChunkLineState.AfterQuote => AfterElement(b),
        ChunkLineState.Lf => b == HttpChars.Lf ? ChunkLineState.End : ChunkLineState.Broken,
        _ => ChunkLineState.Broken,
    };

    /// <summary>The fault of a byte that led from this state to Broken.</summary>
    internal static Http1Fault FaultIn(ChunkLineState state, byte b) => state switch
    {
        ChunkLineState.SizeFirst => Http1Fault.ChunkSize,
        ChunkLineState.Size => b == HttpChars.Lf ? Http1Fault.BareLf : Http1Fault.ChunkSize,
        ChunkLineState.BeforeSemicolon => Http1Fault.ChunkSize,
        ChunkLineState.Lf => Http1Fault.BareCr,
        _ => Http1Fault.ChunkExtension,
    };

    private static ChunkLineState AfterElement(byte b) =>
        b == HttpChars.Cr ? ChunkLineState.Lf : b == ';' ? ChunkLineState.NameFirst :
        HttpChars.IsWhite(b) ? ChunkLineState.BeforeSemicolon : ChunkLineState.Broken;
}
