// What `millrace config caddy` prints, behind a real Caddy.

using System.Text.Json;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract class PrintedCaddyTests(string scheme) : PrintedBlockTests(scheme)
{
    // Go chooses by :authority, and leaves a field Host that is there besides among the fields, which become variables.
    [Fact]
    public async Task Host_over_HTTP2_is_the_authority_RFC9113_8_3_1()
    {
        await using Guarded site = await StartGuardedAsync();
        foreach ((string authority, string? host) in ((string, string?)[])[("admin.example", "public.example"), ("public.example", "admin.example"), ("public.example", null), ("public.example", "public.example")])
        {
            byte[] body = await PlainHttp2.GetAsync(site.Place, "/env/x", authority, host);
            EnvironmentReport? seen = body.Length == 0 ? null : JsonSerializer.Deserialize<EnvironmentReport>(body, JsonSerializerOptions.Web);
            Assert.Equal(authority, seen?.Host ?? authority);
            Assert.True(seen is not null || (host is not null && host != authority));
        }
    }

    private protected override string FrontEnd => "caddy";

    private protected override string OnPort(string block, int port) => block
        .Replace("http://localhost", $"http://localhost:{port}", StringComparison.Ordinal)
        .Replace("http://127.0.0.1", $"http://127.0.0.1:{port}", StringComparison.Ordinal)
        .Replace(".example", $".example:{port}", StringComparison.Ordinal);

    private protected override string Deny(string block) => block.Insert(block.IndexOf(" {\n", StringComparison.Ordinal) + 3, "\trespond /env/secret* 403\n");

    private protected override string Wrap(string block, string directory) =>
        $"{{\n\tadmin off\n\tauto_https off\n\tservers {{\n\t\tprotocols h1 h2 h2c\n\t}}\n\tstorage file_system {directory}/storage\n}}\n\n{block}";

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new CaddyProgram()), ["run", "--config", configuration, "--adapter", "caddyfile"]);
}

public sealed class PrintedCaddyFastCgiTests() : PrintedCaddyTests("fastcgi");

public sealed class PrintedCaddyHttpTests() : PrintedCaddyTests("http");
