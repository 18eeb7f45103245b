// Where what an application prints goes, and what is said of it: among others its name stands in front, and one that is alone has the terminal to itself.

using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

/// <param name="Output">What its processes print.</param>
/// <param name="Say">What happens to it, a sentence without its capital letter and its full stop.</param>
/// <param name="Complain">A line of what its build complains of.</param>
/// <param name="WhereComplaintsAre">As the end of a sentence.</param>
/// <param name="WhyItEnds">What is the matter when nothing more is done for it.</param>
internal sealed record AppVoice(AppOutput Output, Action<string> Say, Action<string> Complain, string WhereComplaintsAre, string WhyItEnds)
{
    /// <summary>Nobody comes behind the process that runs it, and could go on with it.</summary>
    public bool IsAlone { get; private init; }

    /// <summary>Of one of several.</summary>
    public static AppVoice Among(string name, SteadyOutput to)
    {
        var output = new AppOutput(line => to.PrintAsync($"{name} | {line}"));
        return new AppVoice(
            output, what => to.Print(CommandConsole.Readable($"{name}: {what}")), line => _ = output.AddAsync(line).AsTask(), $"`millrace logs {name}` shows why",
            "it has been taken out of the file, or the daemon stops");
    }

    /// <summary>Of one that is alone.</summary>
    public static AppVoice Alone(SteadyOutput to) =>
        new(new AppOutput(to.PrintAsync), to.Say, line => to.PrintError(CommandConsole.Readable(line)), "the errors are above", "it was told to end") { IsAlone = true };
}
