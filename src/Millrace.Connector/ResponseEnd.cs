// END_REQUEST (FastCGI 1.0 §5.5), which may come in pieces, and whether what came before it is a whole response.

using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

/// <summary>A field of whoever reads the response: it is changed where it is.</summary>
internal struct ResponseEnd
{
    private byte[]? _pieces;
    private int _length;
    private EndRequest? _its;

    /// <summary>All of it is there.</summary>
    public readonly bool HasCome => _its is not null;

    /// <summary>The next response begins.</summary>
    public void Reset() => (_length, _its) = (0, null);

    /// <exception cref="ConnectorException">It has another size.</exception>
    public void Take(in RecordPart part, ReadOnlySpan<byte> content)
    {
        if (part.ContentLength != EndRequest.Size)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its END_REQUEST has not 8 bytes.");
        }
        if (content.Length == EndRequest.Size)
        {
            _its = EndRequest.Read(content);
            return;
        }
        content.CopyTo((_pieces ??= new byte[EndRequest.Size]).AsSpan(_length));
        _length += content.Length;
        if (part.IsLast)
        {
            _its = EndRequest.Read(_pieces);
        }
    }

    /// <param name="hasHead">The head of the response is there.</param>
    /// <param name="missing">It has announced more bytes than have come.</param>
    /// <exception cref="ConnectorException">The request has been refused, or its response is not whole.</exception>
    public readonly void Check(bool hasHead, bool missing)
    {
        EndRequest end = _its!.Value;
        if (end.Status != ProtocolStatus.RequestComplete)
        {
            throw new ConnectorException(end.Status == ProtocolStatus.Overloaded ? ConnectorFault.Busy : ConnectorFault.BrokenResponse, $"It has refused the request: {end.Status}.");
        }
        if (!hasHead)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "It has ended the request without a head of a response.");
        }
        if (missing)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has fewer bytes than its Content-Length says.");
        }
    }
}
