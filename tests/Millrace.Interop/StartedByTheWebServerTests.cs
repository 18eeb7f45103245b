// Web servers that start the application themselves and pass it the listening socket as descriptor 0 (FastCGI 1.0, section
// 2.2). The application is samples/Plain, as a process of its own.
using System.Text;
using Millrace.Interop.Client;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public sealed class StartedByTheWebServerTests
{
    private static readonly Combination s_combination = new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.ClosedAfterEachRequest);

    public static TheoryData<string> WebServers => ["lighttpd", "h2o"];

    [Theory]
    [MemberData(nameof(WebServers))]
    public async Task Application_on_descriptor_0_answers_and_ends_with_its_web_server_FastCgi_2_2(string name)
    {
        // The mark is an argument that the application does not look at: by it its process is found.
        string mark = Guid.NewGuid().ToString("N");
        string command = $"{FindDotnet()} {CommandProcess.AssemblyOf("samples/Plain", "Plain")} fastcgi://fd:0 {mark}";
        FrontEndProgram program = name == "lighttpd" ? new LighttpdProgram(command) : new H2oProgram(command);
        await using (FrontEndServer frontEnd = await FrontEndServer.StartAsync(program, new Upstream(s_combination, [])))
        {
            using WireClient client = await WireClient.ConnectAsync(frontEnd.Buffered);
            for (int i = 0; i < 20; i++)
            {
                WireResponse response = await client.GetAsync($"/a%2Fb?c={i}");
                Assert.Equal($"Hello, World! You asked for /a%2Fb?c={i} with GET.\n", response.Text);
            }

            Assert.Equal("Hello, World! You asked for / with POST.\n", (await client.SendAsync("POST", "/", DeterministicBytes.Create(100_000))).Text);
            Assert.True(IsRunning(mark));
        }

        long deadline = Environment.TickCount64 + 10_000;
        while (IsRunning(mark))
        {
            Assert.True(Environment.TickCount64 < deadline, $"The application outlived {name}.");
            await Task.Delay(50);
        }
    }

    private static bool IsRunning(string mark) => Directory.EnumerateDirectories("/proc").Any(process =>
    {
        try
        {
            return File.ReadAllText(Path.Combine(process, "cmdline"), Encoding.Latin1).EndsWith($"fastcgi://fd:0\0{mark}\0", StringComparison.Ordinal);
        }
        catch (IOException)
        {
            // No process, or one that has just ended.
            return false;
        }
        catch (UnauthorizedAccessException)
        {
            return false;
        }
    });

    // Web servers start programs by their full path.
    private static string FindDotnet() => Environment.ProcessPath is { } path && Path.GetFileName(path) == "dotnet"
        ? path
        : Environment.GetEnvironmentVariable("PATH")!.Split(':').Select(static folder => Path.Combine(folder, "dotnet")).First(File.Exists);
}
