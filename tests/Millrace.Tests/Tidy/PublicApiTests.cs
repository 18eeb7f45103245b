// The public surface is written down: a change of it is a change of a file that somebody has to approve.

using System.Reflection;
using Millrace.Protocols;

namespace Millrace.Tests.Tidy;

public sealed class PublicApiTests
{
    private const string ApproveVariable = "MILLRACE_APPROVE_API";

    public static TheoryData<string> Assemblies => [.. (string[])["Millrace", "Millrace.Protocols", "Millrace.Workers", "Millrace.Connector", "Millrace.Sessions"]];

    [Theory]
    [MemberData(nameof(Assemblies))]
    public void The_public_surface_is_the_approved_one(string name)
    {
        Assembly assembly = name switch
        {
            "Millrace" => typeof(MillraceServer).Assembly,
            "Millrace.Protocols" => typeof(ReadResult).Assembly,
            "Millrace.Workers" => typeof(Millrace.Workers.WorkerPoolOptions).Assembly,
            "Millrace.Sessions" => typeof(Millrace.Sessions.MillraceSessionOptions).Assembly,
            _ => typeof(Millrace.Connector.FastCgiProgramOptions).Assembly,
        };
        string path = Path.Combine(Repository.Root, $"tests/Millrace.Tests/Tidy/PublicApi.{name}.txt");
        string rendered = PublicApi.Of(assembly);
        if (Environment.GetEnvironmentVariable(ApproveVariable) == "1")
        {
            File.WriteAllText(path, rendered);
        }

        string[] approved = File.Exists(path) ? File.ReadAllLines(path) : [];
        string[] actual = rendered.TrimEnd('\n').Split('\n');
        string changes = string.Join('\n', approved.Except(actual).Select(static line => "- " + line).Concat(actual.Except(approved).Select(static line => "+ " + line)));
        Assert.True(approved.SequenceEqual(actual), $"The public surface of {name} has changed:\n{changes}\nIf that is meant, run the tests once with {ApproveVariable}=1 and commit {path}.");
    }
}
