// The chunked body reader written straight from the grammar, one function per rule. It is what ChunkedReader is compared with.

using System.Globalization;
using System.Numerics;
using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

/// <summary>What the plain reader found: 200 for a whole body, 0 for one that is not complete, else the status that refuses it.</summary>
internal sealed class ScalarBody
{
    internal int Status;
    internal string Why = "";
    internal int Consumed;
    internal StringBuilder Data = new();
    internal List<(string Name, string Value)> Trailers = [];
}

/// <summary>A plain, slow reader of chunked bodies.</summary>
internal sealed class ScalarChunkedReader
{
    private static readonly string[] Refused =
        ["host", "connection", "upgrade", "content-length", "transfer-encoding", "authorization", "proxy-authorization", "cookie"];

    private static readonly string[] Discarded =
    [
        "expect", "keep-alive", "proxy-connection", "te", "trailer", "max-forwards", "cache-control", "pragma", "range", "if-match", "if-none-match",
        "if-modified-since", "if-unmodified-since", "if-range", "content-type", "content-encoding", "content-range",
    ];

    private readonly string _text;
    private int _at;
    private int _extensionBytes;
    private int _chunkExtensionBytes;
    private int _dataBytes;

    private ScalarChunkedReader(string text) => _text = text;

    internal static ScalarBody Read(ReadOnlySpan<byte> input, in Http1Limits limits)
    {
        var reader = new ScalarChunkedReader(Encoding.Latin1.GetString(input));
        var body = new ScalarBody();
        try
        {
            while (reader.ReadChunk(body))
            {
            }

            reader.ReadTrailers(limits, body);
            body.Consumed = reader._at;
            body.Status = 200;
        }
        catch (ScalarRefusal refused)
        {
            (body.Status, body.Why) = (refused.Status, refused.Message);
        }
        catch (ScalarIncomplete)
        {
            body.Status = 0;
        }

        return body;
    }

    // chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF; false for the last chunk, which has no data
    private bool ReadChunk(ScalarBody body)
    {
        _chunkExtensionBytes = 0;
        _dataBytes = body.Data.Length;
        BigInteger size = ReadSize();
        ReadExtensions();
        Take(c => c == '\r');
        Take(c => c == '\n');
        if (size == 0)
        {
            return false;
        }

        int length = (int)BigInteger.Min(size, _text.Length - _at);
        body.Data.Append(_text, _at, length);
        _at += length;
        Take(c => c == '\r');
        Take(c => c == '\n');
        return true;
    }

    // chunk-size = 1*HEXDIG
    private BigInteger ReadSize()
    {
        string digits = "" + Take(char.IsAsciiHexDigit);
        while (char.IsAsciiHexDigit(Peek()))
        {
            digits += Take(char.IsAsciiHexDigit);
            BigInteger soFar = BigInteger.Parse("0" + digits, NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            ScalarHttp1Reader.Check(digits.Length <= 16 && soFar <= long.MaxValue, 400, "chunk size too large");
        }

        return BigInteger.Parse("0" + digits, NumberStyles.HexNumber, CultureInfo.InvariantCulture);
    }

    // chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
    private void ReadExtensions()
    {
        while (SkipWhite() | Peek() == ';')
        {
            TakeInExtension(c => c == ';');
            SkipWhite();
            ReadToken();
            if (IsWhite(Peek()) || Peek() == '=')
            {
                bool white = SkipWhite();
                if (Peek() == '=')
                {
                    TakeInExtension(c => c == '=');
                    SkipWhite();
                    ReadValue();
                }
                else if (white)
                {
                    // The white space was in front of the next ";".
                    ScalarHttp1Reader.Check(Peek() == ';', 400, "white space at the end of an extension");
                }
            }
        }
    }

    // chunk-ext-val = token / quoted-string
    private void ReadValue()
    {
        if (Peek() != '"')
        {
            ReadToken();
            return;
        }

        TakeInExtension(c => c == '"');
        while (Peek() != '"')
        {
            if (TakeInExtension(IsText) == '\\')
            {
                TakeInExtension(IsText);
            }
        }

        TakeInExtension(c => c == '"');
    }

    private void ReadToken()
    {
        TakeInExtension(ScalarHttp1Reader.IsTchar);
        while (ScalarHttp1Reader.IsTchar(Peek()))
        {
            TakeInExtension(ScalarHttp1Reader.IsTchar);
        }
    }

    // True if there was white space.
    private bool SkipWhite()
    {
        int from = _at;
        while (IsWhite(Peek()))
        {
            TakeInExtension(IsWhite);
        }

        return _at > from;
    }

    // trailer-section CRLF
    private void ReadTrailers(in Http1Limits limits, ScalarBody body)
    {
        int from = _at;
        int lines = 0;
        while (true)
        {
            string line = ScalarHttp1Reader.Line(_text, _at, (long)limits.HeaderBytesMax - (_at - from), 431);
            _at += line.Length + 2;
            if (line.Length == 0)
            {
                return;
            }

            ScalarHttp1Reader.Check(lines++ < limits.HeaderCountMax, 431, "too many");
            (string name, string value) = ScalarHttp1Reader.SplitField(line);
            ScalarHttp1Reader.Check(!Refused.Contains(name.ToLowerInvariant()), 400, "forbidden trailer");
            if (!Discarded.Contains(name.ToLowerInvariant()))
            {
                body.Trailers.Add((name, value));
            }
        }
    }

    private static bool IsWhite(char c) => c is ' ' or '\t';

    private static bool IsText(char c) => c == '\t' || (c >= ' ' && c != 0x7F);

    private char Peek() => _at < _text.Length ? _text[_at] : throw new ScalarIncomplete();

    private char Take(Func<char, bool> allowed)
    {
        ScalarHttp1Reader.Check(allowed(Peek()), 400, "chunk framing");
        return _text[_at++];
    }

    private char TakeInExtension(Func<char, bool> allowed)
    {
        char taken = Take(allowed);
        ScalarHttp1Reader.Check(++_chunkExtensionBytes <= ChunkedReader.ExtensionBytesPerChunkMax, 413, "extensions of a chunk too long");
        int bytesMax = ChunkedReader.ExtensionBytesFree + (_dataBytes / ChunkedReader.DataBytesPerExtensionByte);
        ScalarHttp1Reader.Check(++_extensionBytes <= bytesMax, 413, "extensions too long");
        return taken;
    }
}
