// Where the command writes: text and raw bytes in one order on standard output, sentences on standard error.
// Colours only on a terminal, and not when NO_COLOR is set (https://no-color.org).

using System.Text;
using Millrace.Listeners;

namespace Millrace.Command.Terminals;

internal sealed class CommandConsole : IDisposable
{
    private const int StandardOutput = 1;
    private const int StandardError = 2;

    private static readonly UTF8Encoding s_utf8 = new(encoderShouldEmitUTF8Identifier: false);

    private readonly Lazy<SteadyOutput> _steady;

    public CommandConsole(Stream output, Stream error, bool colour)
    {
        RawOutput = output;
        Output = new StreamWriter(output, s_utf8) { AutoFlush = true, NewLine = "\n" };
        Error = new StreamWriter(error, s_utf8) { AutoFlush = true, NewLine = "\n" };
        Colour = colour;
        _steady = new Lazy<SteadyOutput>(() => new SteadyOutput(output, error));
    }

    /// <summary>Standard output as bytes; text written to <see cref="Output"/> is always ahead of it.</summary>
    public Stream RawOutput { get; }

    public TextWriter Output { get; }

    public TextWriter Error { get; }

    public bool Colour { get; }

    /// <summary>Whether standard output is a terminal, on which lines can be written over.</summary>
    public bool IsTerminal { get; init; }

    /// <summary>The same places for a daemon, which must not stand still with its reader.</summary>
    public SteadyOutput Steady => _steady.Value;

    public static CommandConsole OfProcess()
    {
        bool colour = !Console.IsOutputRedirected
            && string.IsNullOrEmpty(Environment.GetEnvironmentVariable("NO_COLOR"))
            && Environment.GetEnvironmentVariable("TERM") is not (null or "dumb");
        return new CommandConsole(new DescriptorStream(StandardOutput), new DescriptorStream(StandardError), colour) { IsTerminal = !Console.IsOutputRedirected };
    }

    public string Bold(string text) => Colour ? $"\e[1m{text}\e[0m" : text;

    public string Dim(string text) => Colour ? $"\e[2m{text}\e[0m" : text;

    /// <summary>Text without anything that a terminal would obey, or that would have other text shown elsewhere or otherwise.</summary>
    /// <param name="text">A line, or several where <paramref name="keepsLines"/> says so.</param>
    /// <param name="keepsLines">Whether line feeds stay.</param>
    public static string Readable(string text, bool keepsLines = false) => PlainText.Of(text, '\uFFFD', keepsLines ? "\t\n" : "\t");

    /// <summary>A sentence for the user on standard error; none where it cannot be written either. It may quote anything: what a server has sent, the name of a file.</summary>
    public void Say(string sentence)
    {
        try
        {
            Error.WriteLine($"millrace: {Readable(sentence, keepsLines: true)}");
        }
        catch (IOException)
        {
        }
    }

    public void Dispose()
    {
        Output.Dispose();
        Error.Dispose();
    }
}
