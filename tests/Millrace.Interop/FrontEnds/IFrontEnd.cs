// A real web server in front of the application, as the end-to-end list sees it: two places to connect to, and a log.
// Each web server is one implementation with its configuration templates in a folder of its name beside this file, plus
// one line per combination in a test class file: see NginxProgram.cs and NginxTests.cs.
using System.Net;

namespace Millrace.Interop.FrontEnds;

public interface IFrontEnd : IAsyncDisposable
{
    /// <summary>Where requests and responses are collected before they are passed on (a front end's default).</summary>
    IPEndPoint Buffered { get; }

    /// <summary>Where every byte is passed on as it comes, both ways.</summary>
    IPEndPoint Streaming { get; }

    /// <summary>Everything the front end has logged at level error or above, one entry a line.</summary>
    IReadOnlyList<string> ErrorLog();
}
