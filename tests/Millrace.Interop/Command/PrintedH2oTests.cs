// What `millrace config h2o` prints, behind a real H2O.

using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract class PrintedH2oTests(string scheme) : PrintedBlockTests(scheme)
{
    private protected override string FrontEnd => "h2o";

    private protected override string OnPort(string block, int port) => $"listen:\n  host: 127.0.0.1\n  port: {port}\n{block}";

    private protected override string Deny(string block) => block.Replace(
        "      \"/\":\n", "      \"/env/secret\":\n        redirect: { status: 302, url: \"/denied\" }\n      \"/\":\n", StringComparison.Ordinal);

    private protected override string Wrap(string block, string directory) => $"""
        {(Environment.IsPrivilegedProcess ? "user: root" : "")}
        pid-file: "{directory}/pid"
        error-log: "{directory}/error.log"
        {block}
        """;

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new H2oProgram()), ["-m", "worker", "-c", configuration]);
}

public sealed class PrintedH2oFastCgiTests() : PrintedH2oTests("fastcgi");

public sealed class PrintedH2oHttpTests() : PrintedH2oTests("http");
