// What the log says where a request is refused, or answered otherwise than the application wanted, and its operator has to do something about it.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class RefusalLogTests
{
    public static TheoryData<ApplicationProtocol> Protocols => [ApplicationProtocol.FastCgi, ApplicationProtocol.Http];

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task An_interim_status_that_an_application_sets_is_named_RFC9110_15_2(ApplicationProtocol protocol)
    {
        using var log = new CollectedLog();
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app => app.MapGet("/", static context =>
            {
                context.Response.StatusCode = 103;
                return Task.CompletedTask;
            }),
            builder => builder.Logging.AddProvider(log));

        Assert.Equal(500, (await app.Get("/")).Status);

        await log.WaitForAsync("an unhandled exception was thrown by the application");
        Assert.StartsWith("103 is not a final status code", Assert.Single(log.Errors).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_path_for_which_the_web_server_chose_other_rules_is_named_with_the_cure_Hostile_45()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/{**rest}", static () => "here"), builder => builder.Logging.AddProvider(log));

        Assert.Equal(200, app.Exchange(new FastCgiRequest("/admin").With("MILLRACE_PATH", "/admin")).Status);
        Assert.DoesNotContain(log.Lines, static line => line.Contains("MILLRACE_PATH", StringComparison.Ordinal));
        Assert.Equal(400, app.Exchange(new FastCgiRequest("/admin").With("MILLRACE_PATH", "/public")).Status);

        string line = await log.WaitForAsync("refused with 400 (cgi-path-disagrees)");
        Assert.Contains("take MILLRACE_PATH out of its configuration", line, StringComparison.Ordinal);
        Assert.DoesNotContain("/admin", line, StringComparison.Ordinal);        // it is the client's word
    }
}
