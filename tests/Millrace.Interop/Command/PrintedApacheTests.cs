// What `millrace config apache` prints, behind a real Apache.

using Millrace.Interop.Apps;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract class PrintedApacheTests(string scheme) : PrintedBlockTests(scheme)
{
    private static readonly string[] s_modules = ["mpm_event", "authz_core", "env", "headers", "proxy", "proxy_fcgi", "proxy_http"];

    // Apache heeds the host of a target only where its scheme is that of the connection.
    [Fact]
    public async Task Host_of_an_https_target_on_a_plain_connection_is_nobodys_RFC9110_7_4()
    {
        await using Guarded site = await StartGuardedAsync();
        EnvironmentReport? seen = await site.AskAsync("https://admin.example/env/x", "Host: public.example");
        Assert.Equal("public.example", seen?.Host ?? "public.example");
    }

    // Apache takes its brackets for no ServerName, and compares aliases with what is between them. Who is nobody's host is led to the first site.
    [Fact]
    public async Task A_site_whose_host_is_an_address_of_IPv6_is_found_RFC3986_3_2_2()
    {
        const string First = "<VirtualHost *:80>\n    ServerName first\n    <Location \"/\">\n        Require all denied\n    </Location>\n</VirtualHost>\n";
        await using Guarded site = await StartGuardedAsync(deny: static block => First + block, hosts: "[::1]");
        Assert.Equal("/env/x", (await site.AskAsync("/env/x", "Host: [::1]"))?.Path);
        Assert.Equal("/env/x", (await site.AskAsync("/env/x", "Host: [::1]:80"))?.Path);
        Assert.Null(await site.AskAsync("/env/x", "Host: first"));
    }

    private protected override string FrontEnd => "apache";

    private protected override string OnPort(string block, int port) =>
        $"Listen 127.0.0.1:{port}\n{block.Replace("*:80", $"127.0.0.1:{port}", StringComparison.Ordinal)}";

    private protected override string Deny(string block) =>
        block.Replace("</VirtualHost>", "    <Location \"/env/secret\">\n        Require all denied\n    </Location>\n</VirtualHost>", StringComparison.Ordinal);

    private protected override string Wrap(string block, string directory) => $"""
        ServerRoot "{directory}"
        DefaultRuntimeDir "{directory}"
        PidFile "{directory}/pid"
        ErrorLog "{directory}/error.log"
        ServerName localhost
        {(Environment.IsPrivilegedProcess ? "User #65534\nGroup #65534" : "")}
        {string.Join('\n', s_modules.Select(static name => $"LoadModule {name}_module {ApacheProgram.Modules}/mod_{name}.so"))}
        {block}
        """;

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new ApacheProgram()), ["-D", "FOREGROUND", "-f", configuration]);
}

public sealed class PrintedApacheFastCgiTests() : PrintedApacheTests("fastcgi");

public sealed class PrintedApacheHttpTests() : PrintedApacheTests("http")
{
    // Apache takes away what Connection names, its own lines included: the application would take an HTTPS visitor for an HTTP one.
    [Theory]
    [InlineData("X-Forwarded-Proto")]
    [InlineData("close, x-forwarded-PROTO")]
    [InlineData("X-Forwarded-X-Forwarded-ProtoProto")]
    [InlineData("X-Forwarded-Proto-Forwarded-Proto")]
    [InlineData("X-Forwarded-ProtoX-Forwarded-Proto-Forwarded-Proto, X-Forwarded-Proto-X-Forwarded-Proto")]
    public async Task No_Connection_of_the_client_takes_the_scheme_away_RFC9110_7_6_1(string connection)
    {
        await using Guarded site = await StartGuardedAsync();
        EnvironmentReport? seen = await site.AskAsync("/env/x", $"Connection: {connection}", "X-Forwarded-Proto: https");
        Assert.Equal("http", seen!.Header("X-Forwarded-Proto"));
    }
}
