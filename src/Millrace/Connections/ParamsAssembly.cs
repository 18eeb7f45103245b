// The PARAMS of a FastCGI request (FastCGI 1.0 §5.2): in place in the buffer being processed, or gathered when they come in pieces.

using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Text;

namespace Millrace.Connections;

internal struct ParamsAssembly
{
    private GatheredBytes _gathered;
    private int _start;
    private int _length;
    private bool _inPlace;

    public readonly int Length => _gathered.Length + (_inPlace ? _length : 0);

    /// <summary>A request begins; a buffer that there is stays.</summary>
    public void Begin()
    {
        _inPlace = false;
        _gathered.Clear();
    }

    /// <summary>The next part, which lies in <paramref name="buffer"/>.</summary>
    public void Add(byte[] buffer, int start, int length)
    {
        if (_gathered.IsEmpty && !_inPlace)
        {
            (_start, _length, _inPlace) = (start, length, true);
            return;
        }

        Keep(buffer);
        _gathered.Add(buffer.AsSpan(start, length));
    }

    /// <summary>The buffer is about to be used for something else, or they do not stay in it.</summary>
    public void Keep(byte[] buffer)
    {
        if (_inPlace)
        {
            _gathered.Add(buffer.AsSpan(_start, _length));
            _inPlace = false;
        }
    }

    /// <summary>Where they are, and from where on.</summary>
    public readonly byte[] Source(byte[] buffer, out int origin)
    {
        origin = _inPlace ? _start : 0;
        return _inPlace ? buffer : _gathered.Store ?? [];
    }

    /// <summary>There is no REQUEST_URI: the target is rebuilt behind them, in a buffer of their own.</summary>
    public Slice AddTarget(CgiHead cgi, byte[] buffer)
    {
        Keep(buffer);
        Span<byte> room = _gathered.Reserve(TargetPath.RebuildSizeMax(cgi.ScriptName.Length, cgi.PathInfo.Length, cgi.QueryString.Length));
        ReadOnlySpan<byte> bytes = _gathered.Bytes;
        return new Slice(bytes.Length, TargetPath.Rebuild(cgi.ScriptName.In(bytes), cgi.PathInfo.In(bytes), cgi.QueryString.In(bytes), room));
    }

    /// <summary>The head is whole and the request's: so is the buffer, where it has one of its own. Null: it lies in that of others.</summary>
    public byte[]? Detach()
    {
        bool isOwn = !_inPlace && _gathered.Store is not null;
        _inPlace = false;
        return isOwn ? _gathered.Detach() : null;
    }

    public void Drop()
    {
        _inPlace = false;
        _gathered.Drop();
    }
}
