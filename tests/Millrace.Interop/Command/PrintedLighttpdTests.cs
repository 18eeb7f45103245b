// What `millrace config lighttpd` prints, behind a real lighttpd. As in Debian, http-parseopts were set before.

using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract class PrintedLighttpdTests(string scheme) : PrintedBlockTests(scheme)
{
    private protected override string FrontEnd => "lighttpd";

    private protected override string OnPort(string block, int port) => $"server.port = {port}\n{block}";

    private protected override string Deny(string block) => block + "\n$HTTP[\"url\"] =~ \"^/env/secret\" { url.access-deny = ( \"\" ) }\n";

    private protected override string Wrap(string block, string directory) => $"""
        server.modules = ( "mod_access" )
        server.bind = "127.0.0.1"
        server.document-root = "{directory}"
        server.errorlog = "{directory}/error.log"
        server.upload-dirs = ( "{directory}" )
        server.http-parseopts = ( "url-normalize-required" => "enable", "url-path-2f-decode" => "enable" )
        {block}
        """;

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new LighttpdProgram()), ["-D", "-f", configuration]);
}

public sealed class PrintedLighttpdFastCgiTests() : PrintedLighttpdTests("fastcgi");

public sealed class PrintedLighttpdHttpTests() : PrintedLighttpdTests("http");
