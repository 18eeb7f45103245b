// An application that is published trimmed, or compiled ahead of time: nothing that it needs is trimmed away, and its options are what its configuration
// says. The runtime and the compiler come from NuGet, or from what was restored before.

using System.Net;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class TrimmedTests : IDisposable
{
    private readonly TemporaryDirectory _directory = new("trimmed");

    public void Dispose() => _directory.Dispose();

    private void Write(string name, string text) => File.WriteAllText(Path.Combine(_directory.Path, name), text);

    [Theory]
    [InlineData("PublishTrimmed")]
    [InlineData("PublishAot")]
    public async Task Published_application_has_no_warnings_and_keeps_to_the_limits_of_its_configuration(string way)
    {
        Write("Trimmed.csproj", $"""
            <Project Sdk="Microsoft.NET.Sdk.Web">
              <PropertyGroup>
                <TargetFramework>net10.0</TargetFramework>
                <ImplicitUsings>enable</ImplicitUsings>
                <{way}>true</{way}>
                <TrimmerSingleWarn>false</TrimmerSingleWarn>
                <TreatWarningsAsErrors>true</TreatWarningsAsErrors>
                <InvariantGlobalization>true</InvariantGlobalization>
                <NuGetAudit>false</NuGetAudit>
              </PropertyGroup>
              <ItemGroup>
                <Reference Include="{CommandProcess.AssemblyOf("src/Millrace", "Millrace")}" />
                <Reference Include="{CommandProcess.AssemblyOf("src/Millrace", "Millrace.Protocols")}" />
              </ItemGroup>
            </Project>
            """);
        Write("appsettings.json", """{ "Millrace": { "MaxRequestBodySize": 10, "MaxRequestLineBytes": 100, "IdleTimeout": "00:00:07", "Dispatch": "Workers", "MaxConcurrentRequests": 5 } }""");
        Write("Program.cs", """
            var builder = WebApplication.CreateSlimBuilder(args);
            builder.WebHost.UseMillrace();
            var app = builder.Build();
            app.Run(async context =>
            {
                await context.Request.Body.CopyToAsync(Stream.Null);
                var options = context.RequestServices.GetRequiredService<Microsoft.Extensions.Options.IOptions<Millrace.MillraceOptions>>().Value;
                await context.Response.WriteAsync($"{options.IdleTimeout} {options.Dispatch} {options.MaxConcurrentRequests}");
            });
            app.Run();
            """);
        await using (var publish = CommandProcess.StartProgram("dotnet", "publish", _directory.Path, "-c", "Release", "-r", "linux-x64", "-o", Path.Combine(_directory.Path, "out"), "--nologo"))
        {
            Assert.True(await publish.WaitForExitAsync(TimeSpan.FromMinutes(8)) == 0, publish.Output);
            Assert.DoesNotContain("warning", publish.Output, StringComparison.Ordinal);
        }

        await using var app = CommandProcess.StartProgram(Path.Combine(_directory.Path, "out", "Trimmed"), "--urls", "http://127.0.0.1:0", "--contentRoot", Path.Combine(_directory.Path, "out"));
        await app.WaitForOutputAsync("Now listening on: http://127.0.0.1:");
        await app.WaitForOutputAsync("Application started.");
        var address = new Uri(app.Output.Split('\n').Single(line => line.Contains("Now listening on: ", StringComparison.Ordinal)).Split("on: ")[1].Trim());
        using var client = new HttpClient { BaseAddress = address };

        Assert.Equal("00:00:07 Workers 5", await client.GetStringAsync("/"));
        Assert.Equal(HttpStatusCode.OK, (await client.PostAsync("/", new ByteArrayContent(new byte[10]))).StatusCode);
        Assert.Equal(HttpStatusCode.RequestEntityTooLarge, (await client.PostAsync("/", new ByteArrayContent(new byte[11]))).StatusCode);
        Assert.Equal(HttpStatusCode.RequestUriTooLong, (await client.GetAsync("/" + new string('a', 100))).StatusCode);
    }
}
