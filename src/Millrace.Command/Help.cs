// Examples and exit codes below the generated help of a verb.

using System.CommandLine;
using System.CommandLine.Help;
using System.CommandLine.Invocation;
using System.Runtime.CompilerServices;

namespace Millrace.Command;

internal sealed record Help((string Line, string Meaning)[] Examples, (int Code, string Meaning)[] ExitCodes);

internal static class HelpTable
{
    private static readonly ConditionalWeakTable<System.CommandLine.Command, Help> s_helps = [];

    public static System.CommandLine.Command WithHelp(this System.CommandLine.Command command, Help help)
    {
        s_helps.Add(command, help);
        return command;
    }

    public static Help? Of(System.CommandLine.Command command) => s_helps.TryGetValue(command, out var help) ? help : null;
}

internal sealed class HelpWithExamples(HelpAction generated) : SynchronousCommandLineAction
{
    public override bool ClearsParseErrors => true;

    public override int Invoke(ParseResult parseResult)
    {
        generated.Invoke(parseResult);
        if (HelpTable.Of(parseResult.CommandResult.Command) is { } help)
        {
            var output = parseResult.InvocationConfiguration.Output;
            output.WriteLine("Examples:");
            foreach (var (line, meaning) in help.Examples)
            {
                output.WriteLine($"  {line}");
                output.WriteLine($"      {meaning}");
            }
            output.WriteLine();
            output.WriteLine("Exit codes:");
            foreach (var (code, meaning) in help.ExitCodes)
            {
                output.WriteLine(code < 0 ? $"  other  {meaning}" : $"  {code,-5}  {meaning}");
            }
            output.WriteLine();
        }
        return ExitCode.Success;
    }
}
