// What became of bytes that were given to a socket.

namespace Millrace.Exchanges;

internal enum SendResult
{
    /// <summary>All of it has been taken by the socket.</summary>
    Done,

    /// <summary>The socket takes no more for now.</summary>
    Again,

    /// <summary>The connection is gone; the bytes are dropped.</summary>
    Broken,

    /// <summary>The file has no more bytes, or cannot be read. Nothing is wrong with the connection.</summary>
    NoFile,
}
