// The answer of a program, record by record: its head is read into the response, its body goes into it. Of a body that begins nothing is shown before there is a whole answer, or more of it than lies here.

using System.Buffers;
using Microsoft.AspNetCore.Http;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    // Of what has come. True: there is no more to wait for.
    private bool TryTakeAnswer(PooledConnection connection, bool settles)
    {
        while (!_end.HasCome && connection.TryRead(out RecordPart part, out ReadOnlyMemory<byte> content))
        {
            if (connection.HasForeign)
            {
                throw new EndOfAnswerException();
            }
            if (part.RequestId == connection.RequestId)
            {
                Take(part, content);
            }
            if (HandedOver is not null)
            {
                return true;     // its body is nobody's
            }
        }
        if (!_end.HasCome)
        {
            KeepPiece();
            return false;
        }
        _end.Check(_head.IsRead, missing: !_dropsBody && _head.ContentLength is { } length && length != _written);
        _ahead?.Complete();
        if (settles)
        {
            KeepPiece();        // its pool may still throw, and what has been shown would be half an answer
        }
        else
        {
            ShowFirst();
        }
        return true;
    }

    private void Take(in RecordPart part, ReadOnlyMemory<byte> content)
    {
        switch (part.Type)
        {
            case RecordType.Stdout:
                if (!_head.IsRead)
                {
                    content = content[_head.Take(content.Span, _context.Response)..];
                    _dropsBody |= _head.IsRead && (HandedOver is not null || _context.Response.StatusCode is 204 or 205 or 304);
                    ConnectorException.ThrowIfBodyless(_head.IsRead, _context.Response.StatusCode, _head.ContentLength ?? 0);
                }
                if (!content.IsEmpty && !_dropsBody)
                {
                    WriteBody(content);
                }
                break;
            case RecordType.Stderr:
                (Errors ??= new ProgramErrors(_options.ErrorBytesMax)).Take(content.Span);
                break;
            case RecordType.EndRequest:
                _end.Take(part, content.Span);
                break;
        }
    }

    private void WriteBody(ReadOnlyMemory<byte> content)
    {
        if (_written + content.Length > (_head.ContentLength ?? long.MaxValue))
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has more bytes than its Content-Length says.");
        }
        if (_ahead is { } ahead)
        {
            ahead.Write(content.Span);
        }
        else if (_context.Response.HasStarted)
        {
            _context.Response.WriteBody(content.Span);
        }
        else
        {
            KeepPiece();
            _piece = content;
        }
        _written += content.Length;
    }

    // What follows comes into its place.
    private void KeepPiece()
    {
        if (!_piece.IsEmpty)
        {
            (_first ??= new ArrayBufferWriter<byte>()).Write(_piece.Span);
            _piece = default;
        }
    }

    /// <summary>What has come of the body, and has not been given to the response because there could have been no whole answer.</summary>
    public void ShowFirst()
    {
        if (_first is { WrittenCount: > 0 } first)
        {
            _context.Response.WriteBody(first.WrittenSpan);
            first.ResetWrittenCount();
            HasShown = true;
        }
        if (!_piece.IsEmpty)
        {
            _context.Response.WriteBody(_piece.Span);
            _piece = default;
            HasShown = true;
        }
    }
}
