// One thing that is wrong with a file of `millrace serve`.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Place">Where in the file.</param>
/// <param name="Sentence">What is wrong, and what to do.</param>
internal sealed record Mistake(Place Place, string Sentence)
{
    /// <summary>In the order of the file.</summary>
    public static IEnumerable<Mistake> InOrder(IEnumerable<Mistake> mistakes) => mistakes.OrderBy(static mistake => mistake.Place.Line).ThenBy(static mistake => mistake.Place.Column);

    /// <summary>As compilers write it: FILE:LINE:COLUMN: SENTENCE.</summary>
    public string In(string file) => string.Create(CultureInfo.InvariantCulture, $"{file}:{Place.Line}:{Place.Column}: {Sentence}");
}
