// samples/Container says the same in each of its files, and what the command and the project say: paths, the socket, groups, times. What is made of them runs in
// Millrace.Interop/Packages.

using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using Millrace.Command;
using Millrace.Command.FrontEnds;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Listeners;
using Millrace.Tests.Tidy;
using YamlDotNet.RepresentationModel;

namespace Millrace.Tests.Command;

public sealed class ContainerSampleTests
{
    private const string Folder = "samples/Container";

    private static readonly string[] s_steps = Repository.Read($"{Folder}/Dockerfile").Split('\n', StringSplitOptions.RemoveEmptyEntries);

    private static readonly YamlMappingNode s_compose = Compose();

    private static YamlMappingNode Site => At(s_compose, "services", "hello");

    private static YamlMappingNode Nginx => At(s_compose, "services", "nginx");

    [Fact]
    public void What_the_image_copies_is_there_and_what_it_serves_is_in_it()
    {
        string[][] copies = [.. s_steps.Where(static step => step.StartsWith("COPY ", StringComparison.Ordinal)).Select(static step => step.Split(' ', StringSplitOptions.RemoveEmptyEntries)[1..])];
        string[] made = [.. s_steps.SelectMany(static step => Regex.Matches(step, "dotnet publish .* -o (/out/[a-z]+)").Select(static match => match.Groups[1].Value))];
        Assert.Equal(["/out/millrace", "/out/hello"], made);
        foreach (string[] copy in copies)
        {
            Assert.All(copy[..^1].Where(static source => source != "--from=build"), source => Assert.True(copy[0] == "--from=build" ? made.Contains(source) : Path.Exists(Path.Combine(Repository.Root, source)), source));
        }
        Assert.All(s_steps.SelectMany(static step => Regex.Matches(step, @"dotnet publish (\S+)").Select(static match => match.Groups[1].Value)), static project => Assert.True(Directory.Exists(Path.Combine(Repository.Root, project)), project));

        string[] served = JsonSerializer.Deserialize<string[]>(s_steps.Single(static step => step.StartsWith("ENTRYPOINT ", StringComparison.Ordinal))["ENTRYPOINT ".Length..])!;
        Assert.Equal("millrace", served[0]);
        AssertIsUnderstood(served[1..]);
        Assert.Contains(copies, copy => copy[0] == $"{Folder}/millrace.json" && copy[^1] == served[^1]);
        Assert.Contains(copies, copy => copy[^1] == File().Apps.Single().Target);
        Assert.Contains(s_steps, static step => step.Contains("/Millrace.Command /usr/bin/millrace ", StringComparison.Ordinal));
    }

    [Fact]
    public void The_socket_is_the_same_for_everybody_and_lies_in_the_volume()
    {
        string url = File().Apps.Single().Urls.Single();
        var address = ListenAddress.ParseList(url).Single();
        string folder = Path.GetDirectoryName(address.Path)!;
        string group = Regex.Match(url, @"[?&]group=(\d+)").Groups[1].Value;

        Assert.Contains($"install -d -o $APP_UID -g {group} -m 2750 {folder}", string.Concat(s_steps), StringComparison.Ordinal);
        Assert.Equal([group], Texts(Site, "group_add"));
        Assert.Equal([$"sockets:{folder}"], Texts(Site, "volumes"));
        Assert.Equal([$"sockets:{folder}:ro", "./nginx.conf:/etc/nginx/conf.d/default.conf:ro"], Texts(Nginx, "volumes"));
        Assert.Equal(["sockets"], At(s_compose, "volumes").Children.Keys.Select(static key => ((YamlScalarNode)key).Value));
        string[] health = Texts(At(Site, "healthcheck"), "test");
        Assert.Equal(["CMD", "millrace", "get", $"fastcgi://unix:{address.Path}", File().Apps.Single().Health!], health);
        AssertIsUnderstood(health[2..]);
        Assert.Equal(
            new Nginx().Configure(new FrontEndSite(ServerAddress.Parse(health[3]), "hello", FrontEndSite.DefaultHostNames, "/", ListenOnIPv6: true)),
            Repository.Read($"{Folder}/nginx.conf"));
    }

    [Fact]
    public void The_rest_of_the_compose_file_agrees_with_the_project()
    {
        var build = At(Site, "build");
        Assert.Equal(Repository.Root, Path.GetFullPath(Path.Combine(Repository.Root, Folder, Text(build, "context"))).TrimEnd('/'));
        Assert.Equal($"{Folder}/Dockerfile", Text(build, "dockerfile"));
        Assert.True(TimeSpan.FromSeconds(int.Parse(Text(Site, "stop_grace_period").TrimEnd('s'), System.Globalization.CultureInfo.InvariantCulture)) > File().Apps.Single().DrainTimeout + TimeSpan.FromSeconds(5));
        Assert.Equal("service_healthy", Text(At(Nginx, "depends_on", "hello"), "condition"));
        Assert.Equal("8080:80", Texts(Nginx, "ports").Single());
        Assert.Contains("listen 80;", Repository.Read($"{Folder}/nginx.conf"), StringComparison.Ordinal);
        Assert.Equal(["hello", "nginx"], At(s_compose, "services").Children.Keys.Select(static key => ((YamlScalarNode)key).Value));
    }

    private static ServeFile File()
    {
        var file = ServeFileReader.Read("/etc/millrace/millrace.json", Encoding.UTF8.GetBytes(Repository.Read($"{Folder}/millrace.json")), new DaemonPlaces("/run/millrace/control.sock", "/var/cache/millrace"), out IReadOnlyList<Mistake> mistakes);
        Assert.Empty(mistakes);
        return file!;
    }

    private static void AssertIsUnderstood(string[] arguments) =>
        Assert.Empty(MillraceCommand.Create(new CommandConsole(Stream.Null, Stream.Null, colour: false)).Parse(arguments).Errors);

    private static YamlMappingNode Compose()
    {
        var yaml = new YamlStream();
        yaml.Load(new StringReader(Repository.Read($"{Folder}/compose.yaml")));
        return (YamlMappingNode)yaml.Documents.Single().RootNode;
    }

    private static YamlMappingNode At(YamlMappingNode node, params string[] path) => path.Aggregate(node, static (at, name) => (YamlMappingNode)at.Children[new YamlScalarNode(name)]);

    private static string Text(YamlMappingNode node, string name) => ((YamlScalarNode)node.Children[new YamlScalarNode(name)]).Value!;

    private static string[] Texts(YamlMappingNode node, string name) => [.. ((YamlSequenceNode)node.Children[new YamlScalarNode(name)]).Select(static each => ((YamlScalarNode)each).Value!)];
}
