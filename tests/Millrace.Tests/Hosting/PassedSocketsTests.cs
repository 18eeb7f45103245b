// Sockets that were passed to the process of a web application, which listens on them where it has been told of nothing else.

using System.Globalization;
using Microsoft.AspNetCore.Builder;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

[Collection(AloneCollection.Name)]
public sealed class PassedSocketsTests
{
    // Nor are they looked at: they are somebody else's, and so are the variables that speak of them. Here there are none.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Sockets_that_were_passed_are_left_alone_where_an_address_was_asked_for(bool hasEndpoint)
    {
        Action<WebApplicationBuilder>? configure = hasEndpoint ? static builder => builder.Configuration["Kestrel:Endpoints:Own:Url"] = "http://127.0.0.1:0" : null;
        Environment.SetEnvironmentVariable("LISTEN_PID", Environment.ProcessId.ToString(CultureInfo.InvariantCulture));
        Environment.SetEnvironmentVariable("LISTEN_FDS", "1");
        try
        {
            await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static () => "served"), configure, address: "http://127.0.0.1:0");
            using var client = new HttpClient();
            Assert.Equal("served", await client.GetStringAsync(app.Address, TestContext.Current.CancellationToken));
            Assert.Equal("1", Environment.GetEnvironmentVariable("LISTEN_FDS"));
        }
        finally
        {
            Environment.SetEnvironmentVariable("LISTEN_PID", null);
            Environment.SetEnvironmentVariable("LISTEN_FDS", null);
        }
    }
}
