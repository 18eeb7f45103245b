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

    /// <summary>Whether parts of the answer have been written already, and no other can take its place.</summary>
    public bool IsMidway { get; set; }
}
