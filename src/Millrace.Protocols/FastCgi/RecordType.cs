// The closed lists of FastCGI 1.0 §8: record types, roles, end states. Values are the wire's.
namespace Millrace.Protocols.FastCgi;

/// <summary>Type of a record (FastCGI 1.0 §8, FCGI_BEGIN_REQUEST ... FCGI_UNKNOWN_TYPE). Any other byte is an unknown type (§4.2).</summary>
public enum RecordType : byte
{
    /// <summary>Web server to application: a request begins (§5.1).</summary>
    BeginRequest = 1,

    /// <summary>Web server to application: the client has gone (§5.4).</summary>
    AbortRequest = 2,

    /// <summary>Application to web server: the request is over (§5.5).</summary>
    EndRequest = 3,

    /// <summary>Web server to application: a stream of name-value pairs (§5.2).</summary>
    Params = 4,

    /// <summary>Web server to application: the request body (§5.3).</summary>
    Stdin = 5,

    /// <summary>Application to web server: the CGI response (§5.3).</summary>
    Stdout = 6,

    /// <summary>Application to web server: text for the error log (§5.3).</summary>
    Stderr = 7,

    /// <summary>Web server to a filter: the file to be filtered (§5.3).</summary>
    Data = 8,

    /// <summary>Web server to application, id 0: asks for limits (§4.1).</summary>
    GetValues = 9,

    /// <summary>Application to web server, id 0: the limits (§4.1).</summary>
    GetValuesResult = 10,

    /// <summary>Application to web server, id 0: a management record that was not understood (§4.2).</summary>
    UnknownType = 11,
}

/// <summary>What the web server wants of the application (FastCGI 1.0 §5.1, §6).</summary>
public enum Role : ushort
{
    /// <summary>Answers a request (§6.2).</summary>
    Responder = 1,

    /// <summary>Allows or refuses a request (§6.3).</summary>
    Authorizer = 2,

    /// <summary>Answers a request from a file sent as DATA (§6.4).</summary>
    Filter = 3,
}

/// <summary>How a request ended at the protocol's level (FastCGI 1.0 §5.5).</summary>
public enum ProtocolStatus : byte
{
    /// <summary>FCGI_REQUEST_COMPLETE.</summary>
    RequestComplete = 0,

    /// <summary>FCGI_CANT_MPX_CONN: another request is active on this connection.</summary>
    CannotMultiplex = 1,

    /// <summary>FCGI_OVERLOADED: a limit is reached.</summary>
    Overloaded = 2,

    /// <summary>FCGI_UNKNOWN_ROLE.</summary>
    UnknownRole = 3,
}
