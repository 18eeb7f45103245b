// Lines of somebody who may never end one: of each only so much is kept as anybody wants to read.

namespace Millrace.Command.Serving;

/// <param name="reader">What is read; not disposed of here.</param>
/// <param name="max">Characters of a line that are kept. Of a longer one the beginning is, with " ..." behind it.</param>
internal sealed class LineReader(TextReader reader, int max)
{
    private readonly char[] _read = new char[4096];
    private int _at;
    private int _end;
    private bool _isBehindReturn;       // the line feed that may come next belongs to it

    /// <summary>The next line, without what ends it: a line feed, a carriage return, or both. Null behind the last.</summary>
    public async Task<string?> ReadAsync(CancellationToken ct)
    {
        var line = new System.Text.StringBuilder();
        for (bool isCut = false; ;)
        {
            if (_at == _end)
            {
                (_at, _end) = (0, await reader.ReadAsync(_read, ct));
            }
            if (_end == 0)
            {
                return line.Length > 0 ? line.ToString() : null;
            }
            if (_isBehindReturn)
            {
                _isBehindReturn = false;
                _at += _read[_at] == '\n' ? 1 : 0;
                continue;
            }
            var rest = _read.AsMemory(_at, _end - _at);
            int length = rest.Span.IndexOfAny('\r', '\n');
            int most = Math.Min(length < 0 ? rest.Length : length, max - Math.Min(max, line.Length));
            line.Append(rest.Span[..most]);
            if (!isCut && most < (length < 0 ? rest.Length : length))
            {
                isCut = true;
                line.Append(" ...");
            }
            _at = length < 0 ? _end : _at + length + 1;
            if (length >= 0)
            {
                _isBehindReturn = rest.Span[length] == '\r';
                return line.ToString();
            }
        }
    }
}
