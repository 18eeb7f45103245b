// Rules of the web server about paths, hosts and headers, with the printed block: no other spelling of a request leads past them. What the application saw is the judge: a
// request may be refused by either of the two.

using System.Net;
using System.Text.Json;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract partial class PrintedBlockTests
{
    [Fact]
    public async Task No_spelling_of_a_path_passes_a_rule_of_the_web_server_RFC3986_6_2_2()
    {
        await using Guarded site = await StartGuardedAsync();
        Assert.Equal("/env/open", (await site.AskAsync("/env/open"))!.Path);
        Assert.Null(await site.AskAsync("/env/secret/x"));
        foreach (string target in (string[])
            ["/env/open#/../secret/x", "/env/secret//../x", "/env/secret/.//../x", "/env/open/../secret/x", "/env/./secret/x", "/env/open/%2e%2e/secret/x", "/env/open/.%2E/secret/x",
            "/env/open/..%2fsecret/x", "/env/open%2f../secret/x", "/env/open/..%5csecret/x", "/env\\secret\\..\\secret\\x", "/env/%73ecret/x", "/env/secret%2f..%2f..%2fenv/secret/x",
            "/env/%%373ecret/x", "/env/%7%33ecret/x", "/env/%%37%33ecret/x",
            "http://localhost/env/secret/x", "HTTP://localhost/env/secret/x", "http://../env/secret/x", "http://./env/secret/x", "http:///env/secret/x",
            "x:http://localhost/env/secret/x", "http:http://localhost/env/secret/x", "x:http://admin.example/env/secret/x", "x-:HTTP://localhost/env/secret/x", "x:/env/secret/x", "x:%2fenv/secret/x"])
        {
            EnvironmentReport? seen = await site.AskAsync(target);
            Assert.False(seen is not null && seen.Path.StartsWith("/env/secret", StringComparison.OrdinalIgnoreCase), $"{target} came to {seen?.Path}");
        }
    }

    [Fact]
    public async Task Host_is_the_one_by_which_the_web_server_went_RFC9112_3_2_2()
    {
        await using Guarded site = await StartGuardedAsync();
        Assert.Equal("public.example:81", (await site.AskAsync("/env/x", "Host: public.example:81"))?.Host ?? "public.example:81");

        // nginx takes several spaces behind the method, and any scheme.
        foreach (string target in (string[])["http://", "HTTP://", " http://", "foo://", " ws+x://"])
        {
            foreach (string host in (string[])["admin.example", "admin.example:8080"])
            {
                EnvironmentReport? seen = await site.AskAsync($"{target}{host}/env/x", "Host: localhost");
                Assert.True(seen is null || seen.Host == host, $"the target says {target}{host}, the application saw {seen?.Host}");
                Assert.True(seen is null || seen.Header("Host") == host);
            }
        }
    }

    // One socket for both families of addresses would make ::ffff:127.0.0.1 of it, which no comparison of the application's takes for the same.
    [Fact]
    public async Task The_client_has_the_address_that_it_has_connected_from_RFC3875_4_1_8()
    {
        await using Guarded site = await StartGuardedAsync();
        EnvironmentReport seen = (await site.AskAsync("/env/x"))!;
        Assert.Equal("127.0.0.1", scheme == "fastcgi" ? seen.RemoteAddress : seen.Header("X-Forwarded-For"));
    }

    // ASP.NET Core splits the list at commas outside quotes: one quote of the client's before the web server's address makes one entry of the two, which is no address, and it stops there.
    [Fact]
    public async Task Client_and_scheme_are_those_of_the_connection_whatever_the_client_says()
    {
        await using Guarded site = await StartGuardedAsync();
        foreach (string[] lines in (string[][])
            [["X-Forwarded-For: 192.0.2.66"], ["X-Forwarded-For: \""], ["X-Forwarded-For: \"192.0.2.66\\"], ["X-Forwarded-For: "], ["X-Forwarded-For: , "],
            ["X-Forwarded-For: 192.0.2.66", "X-Forwarded-For: \""], ["X-Forwarded-For: \"", "X-Forwarded-For: 192.0.2.66"], ["X-Forwarded-For: \"", "Connection: X-Forwarded-For"], ["X_Forwarded_For: \""],
            ["X-Forwarded-Proto: https"], ["X-Forwarded-Proto: \""], ["X-Forwarded-For: 192.0.2.66, 192.0.2.67", "X-Forwarded-Proto: https, https"]])
        {
            EnvironmentReport? seen = await site.AskFromAsync(IPAddress.Parse("127.0.0.5"), scheme == "fastcgi" ? "/env/x" : "/env/forwarded/x", lines);
            Assert.True((seen?.RemoteAddress, seen?.Scheme) == ("127.0.0.5", "http"), $"{string.Join(" | ", lines)} made {seen?.RemoteAddress} and {seen?.Scheme} of it");
        }
    }

    [Fact]
    public async Task No_other_header_passes_for_one_that_the_application_believes_RFC3875_4_1_18()
    {
        await using Guarded site = await StartGuardedAsync();
        EnvironmentReport? seen = await site.AskAsync("/env/x", "X-User: good", "X_User: evil", "X.User: worse");
        Assert.Equal("good", seen is null ? "good" : seen.Header("X-User"));
        Assert.Equal("good", (await site.AskAsync("/env/x", "X-User: good"))!.Header("X-User"));
    }

    [Fact]
    public async Task Nobody_is_a_user_whom_the_web_server_has_not_authenticated_RFC3875_4_1_11()
    {
        await using Guarded site = await StartGuardedAsync();
        Assert.Equal(scheme == "fastcgi" ? "" : null, (await site.AskAsync("/env/x", "Authorization: Basic YWRtaW46bm90IHRoZSBwYXNzd29yZA=="))!.RemoteUser);
    }

    /// <param name="path">Where the application is served.</param>
    /// <param name="deny">Puts the rule into the block; null for the usual one.</param>
    /// <param name="hosts">By which names.</param>
    private protected async Task<Guarded> StartGuardedAsync(string path = "/", Func<string, string>? deny = null, string hosts = "localhost 127.0.0.1 public.example admin.example")
    {
        var directory = new TemporaryDirectory("guarded", searchable: true);
        EndToEndApp app = await EndToEndApp.StartAsync($"{scheme}://unix:{directory.Path}/app.sock?mode=666");
        var printed = await CommandProcess.RunAsync("config", FrontEnd, $"{scheme}://unix:{directory.Path}/app.sock", "--host", hosts, "--path", path);
        Assert.Equal(0, printed.ExitCode);
        (FrontEndProcess frontEnd, IPEndPoint place) = await StartFrontEndAsync((deny ?? Deny)(printed.Output), directory.Path);
        return new Guarded(directory, app, frontEnd, place);
    }

    private protected sealed class Guarded(TemporaryDirectory directory, EndToEndApp app, FrontEndProcess frontEnd, IPEndPoint place) : IAsyncDisposable
    {
        public IPEndPoint Place => place;

        /// <summary>What the application saw of a GET; null when the request was answered otherwise.</summary>
        public Task<EnvironmentReport?> AskAsync(string target, params string[] headers) => AskFromAsync(null, target, headers);

        /// <summary>The same, of a client that has this address.</summary>
        public async Task<EnvironmentReport?> AskFromAsync(IPAddress? from, string target, params string[] headers)
        {
            using WireClient client = await WireClient.ConnectAsync(place, from);
            WireResponse response = await client.GetAsync(target, [.. headers, "Connection: close"]);
            return response.Status == 200 && response.Body.Length > 0 ? JsonSerializer.Deserialize<EnvironmentReport>(response.Body, JsonSerializerOptions.Web) : null;
        }

        public async ValueTask DisposeAsync()
        {
            await frontEnd.DisposeAsync();
            await app.DisposeAsync();
            directory.Dispose();
        }
    }
}
