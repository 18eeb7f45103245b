// Lines of somebody who may never end one: of each only so much is kept as anybody wants to read.

namespace Millrace.Command.Serving;

/// <param name="reader">What is read; not disposed of here.</param>
/// <param name="max">Characters of a line that are kept. Of a longer one the beginning is, with " ..." behind it.</param>
internal sealed class LineReader(TextReader reader, int max)
{
    private readonly char[] _read = new char[4096];
    private int _at;
    private int _end;
    private readonly System.Text.StringBuilder _line = new();
    private bool _isCut;
    private bool _isBehindReturn;       // the line feed that may come next belongs to it

    /// <summary>What has been read of lines that have not been given out; asked when no call is under way.</summary>
    public string Rest => _line.ToString() + new string(_read, _at, _end - _at);

    /// <summary>The next line, without what ends it: a line feed, a carriage return, or both. Null behind the last.</summary>
    public async Task<string?> ReadAsync(CancellationToken ct)
    {
        while (true)
        {
            if (_at == _end)
            {
                int count = await reader.ReadAsync(_read, ct);
                (_at, _end) = (0, count);
            }
            if (_end == 0)
            {
                return _line.Length > 0 ? Take() : null;
            }
            if (_isBehindReturn)
            {
                _isBehindReturn = false;
                _at += _read[_at] == '\n' ? 1 : 0;
                continue;
            }
            var rest = _read.AsMemory(_at, _end - _at);
            int length = rest.Span.IndexOfAny('\r', '\n');
            int most = Math.Min(length < 0 ? rest.Length : length, max - Math.Min(max, _line.Length));
            _line.Append(rest.Span[..most]);
            if (!_isCut && most < (length < 0 ? rest.Length : length))
            {
                _isCut = true;
                _line.Append(" ...");
            }
            _at = length < 0 ? _end : _at + length + 1;
            if (length >= 0)
            {
                _isBehindReturn = rest.Span[length] == '\r';
                return Take();
            }
        }
    }

    private string Take()
    {
        string line = _line.ToString();
        _line.Clear();
        _isCut = false;
        return line;
    }
}
