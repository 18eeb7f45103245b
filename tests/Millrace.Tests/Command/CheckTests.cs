// `millrace check`: what a file names that is not there. What its text alone shows is in ServeFileTests.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class CheckTests : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-test-");

    public void Dispose() => _folder.Delete(recursive: true);

    private string File => Path.Combine(_folder.FullName, "millrace.json");

    [Fact]
    public async Task All_that_is_named_and_not_there_is_said_in_the_order_of_the_file_with_its_place_and_its_cure()
    {
        CommandLine check = await CheckAsync("""
            {
              "shared": { "front": { "urls": "http://127.0.0.1:81", "user": "mr-nobody" } },
              "pools": [
                { "name": "php", "urls": "fastcgi://unix:/run/php.sock", "min": 1,
                  "root": "www", "command": "./no-program" },
                { "name": "cgi", "urls": "fastcgi://unix:/run/cgi.sock", "command": "no-program-in-path",
                  "workingDirectory": "cgi" }
              ],
              "apps": [
                { "name": "shop", "on": "front",
                  "target": "shop",
                  "workingDirectory": "w",
                  "user": "nobody-such" }
              ]
            }
            """);

        string at = _folder.FullName;
        Assert.Equal((1, ""), (check.ExitCode, check.Output));
        Assert.Equal(
            [
                $"millrace: {File}:2:65: front: there is no user 'mr-nobody' on this machine. Make one (adduser --system mr-nobody), or name another.",
                $"millrace: {File}:5:15: php: the folder of its scripts {at}/www is not there. Make it, or name another with \"root\".",
                $"millrace: {File}:5:33: php: there is no program {at}/no-program. Install it, or name another with \"command\".",
                $"millrace: {File}:6:73: cgi: there is no program no-program-in-path in PATH. Install it, or name another with \"command\".",
                $"millrace: {File}:7:27: cgi: the working directory {at}/cgi is not there. Make it, or name another.",
                $"millrace: {File}:11:17: shop: ",
                $"millrace: {File}:12:27: shop: the working directory {at}/w is not there. Make it, or name another.",
                $"millrace: {File}:13:15: shop: there is no user 'nobody-such' on this machine. Make one (adduser --system nobody-such), or name another.",
            ],
            check.Error.TrimEnd('\n').Split('\n').Select(static line => line.Contains(":11:17: shop: ", StringComparison.Ordinal) ? line[..(line.IndexOf("shop: ", StringComparison.Ordinal) + 6)] : line));
        Assert.Contains($"{at}/shop", check.Error, StringComparison.Ordinal);
    }

    [Fact]
    public void What_is_not_written_and_has_a_default_stands_where_its_pool_is_named()
    {
        ServeFile file = ServeFileReader.Read("/etc/millrace.json", """{ "pools": [ { "urls": "fastcgi://unix:/run/php.sock", "name": "php" } ] }"""u8, new DaemonPlaces("/run/c.sock", "/var/cache/m"), out _)!;

        Assert.Equal(new Place(1, 64), file.Written.Of("php", "command"));
        Assert.Equal(new Place(1, 24), file.Written.Of("php", "urls"));
    }

    [Fact]
    public async Task A_file_that_names_what_is_there_is_right()
    {
        CommandLine check = await CheckAsync("""{ "pools": [ { "name": "sh", "urls": "fastcgi://unix:/run/sh.sock", "command": "sh", "root": ".", "user": "root" } ] }""");

        Assert.Equal((0, $"{File}: nothing is wrong with its 1 pool\n", ""), (check.ExitCode, check.Output, check.Error));
    }

    private async Task<CommandLine> CheckAsync(string file)
    {
        await System.IO.File.WriteAllTextAsync(File, file);
        return await CommandLine.RunAsync("check", File);
    }
}
