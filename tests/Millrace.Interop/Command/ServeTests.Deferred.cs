// Applications that bring their runtime along, and run from their own folder: the daemon starts them by way of another program. A script stands in for one: it says over its
// pipe, as the reason why it does not start, what it has found.

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task Variables_reach_an_application_that_brings_its_runtime_along_whatever_their_names()
    {
        string app = SelfContained("#!/bin/sh\necho \"?$(tr '\\0' '\\n' </proc/$$/environ | grep -c -x -e 'a.b=1 2' -e 'ConnectionStrings__my-db=Host=x') of 2 in $PWD, $*\" >/proc/self/fd/$MILLRACE_RUN_REPORT\nexit 1\n");
        Write(Deferred(app, """ "environment": { "a.b": "1 2", "ConnectionStrings__my-db": "Host=x" } """));
        await StartAsync(waitFor: "shop: it did not start");
        Assert.Equal("2 of 2 in /, Served", AppOf("shop", await StatusAsync()).GetProperty("reason").GetString());
    }

    [Theory]
    [InlineData(null, "it, or a library that it needs, is not there. Publish the application again.")]
    [InlineData("", "it may not be executed, or is no program. Publish the application again.")]
    public async Task A_program_that_cannot_be_started_is_a_sentence(string? program, string why)
    {
        string app = SelfContained(program, isExecutable: false);
        Write(Deferred(app));
        await StartAsync(waitFor: "shop: it did not start");
        Assert.Equal($"{app} cannot be started: {why}", AppOf("shop", await StatusAsync()).GetProperty("reason").GetString());
    }

    private string Deferred(string app, params string[] more) =>
        App("shop", _shop, ["\"snapshot\": false", "\"watch\": false", .. more]).Replace($"\"{HostKinds}\"", $"\"{app}.dll\"", StringComparison.Ordinal);

    private string SelfContained(string? program, bool isExecutable = true)
    {
        string app = Path.Combine(Directory.CreateDirectory(Path.Combine(_directory.Path, "own")).FullName, "Own");
        System.IO.File.WriteAllText(app + ".dll", "");
        System.IO.File.WriteAllText(app + ".runtimeconfig.json", """{ "runtimeOptions": { "includedFrameworks": [ { "name": "Microsoft.AspNetCore.App", "version": "10.0.0" } ] } }""");
        if (program is not null && !OperatingSystem.IsWindows())
        {
            System.IO.File.WriteAllText(app, program);
            System.IO.File.SetUnixFileMode(app, UnixFileMode.UserRead | UnixFileMode.UserWrite | (isExecutable ? UnixFileMode.UserExecute : 0));
        }
        return app;
    }
}
