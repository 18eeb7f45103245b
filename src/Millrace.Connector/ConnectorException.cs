namespace Millrace.Connector;

/// <summary>What became of a request that got no whole answer.</summary>
internal enum ConnectorFault
{
    /// <summary>Nobody listens there, or not for this process.</summary>
    NoConnection,

    /// <summary>All connections are in use, or the responder's queue is full, for longer than somebody may wait.</summary>
    Busy,

    /// <summary>What came is no FastCGI, no head of a response, or ends too early.</summary>
    BrokenResponse,
}

/// <param name="fault">Which.</param>
/// <param name="sentence">What happened, for the log.</param>
internal sealed class ConnectorException(ConnectorFault fault, string sentence, Exception? inner = null) : IOException(sentence, inner)
{
    public ConnectorFault Fault => fault;

    /// <summary>Whether this process has no descriptor left for a connection: nothing of it is the responder's, and another one is as far away.</summary>
    public bool IsShortage { get; init; }

    /// <summary>Whether parts of the answer have been written already, and no other can take its place.</summary>
    public bool IsMidway { get; set; }

    /// <summary>What has a status without a body, and says how long its body is, is whole in no way (RFC 9110 §8.6).</summary>
    /// <param name="isHeadRead">Whether all of the head has come.</param>
    /// <param name="status">What it says.</param>
    /// <param name="length">The same; -1 or 0 where it says nothing.</param>
    /// <exception cref="ConnectorException">It is so.</exception>
    public static void ThrowIfBodyless(bool isHeadRead, int status, long length)
    {
        if (isHeadRead && status is 204 or 205 && length > 0)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has a Content-Length, and a status that has no body.");
        }
    }
}
