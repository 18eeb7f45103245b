// The table of policies as a picture: for each flood a group of bars, for each policy one of them for those who were there before and one for those who came meanwhile.

using System.Globalization;
using System.Text;

namespace Millrace.Bench.Sessions;

internal static class PolicyChart
{
    private const int Left = 250;
    private const int Scale = 4;            // pixels for a percent
    private const int BarHeight = 7;
    private const int RowHeight = 22;
    private const int GroupGap = 34;
    private const string Established = "#c0392b";
    private const string New = "#7f8c8d";

    public static string Svg(IReadOnlyList<string> attacks, IReadOnlyList<(string Policy, Losses[] Losses)> rows)
    {
        int height = 40 + (attacks.Count * (GroupGap + (rows.Count * RowHeight)));
        var svg = new StringBuilder();
        Line(svg, $"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{Left + (100 * Scale) + 70}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">");
        Line(svg, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
        Line(svg, $"<rect x=\"{Left}\" y=\"10\" width=\"10\" height=\"{BarHeight}\" fill=\"{Established}\"/><text x=\"{Left + 16}\" y=\"18\">lost of those who were there before</text>");
        Line(svg, $"<rect x=\"{Left + 230}\" y=\"10\" width=\"10\" height=\"{BarHeight}\" fill=\"{New}\"/><text x=\"{Left + 246}\" y=\"18\">of those who came meanwhile</text>");
        int y = 40;
        for (int attack = 0; attack < attacks.Count; attack++)
        {
            Line(svg, $"<text x=\"10\" y=\"{y + 12}\" font-weight=\"bold\">{attacks[attack]}</text>");
            y += 20;
            foreach ((string policy, Losses[] losses) in rows)
            {
                Line(svg, $"<text x=\"20\" y=\"{y + 12}\">{policy.Replace("&", "&amp;", StringComparison.Ordinal)}</text>");
                Bar(svg, y, losses[attack].Established, Established);
                Bar(svg, y + BarHeight + 1, losses[attack].New, New);
                y += RowHeight;
            }
            y += GroupGap - 20;
        }
        Line(svg, "</svg>");
        return svg.ToString();
    }

    private static void Bar(StringBuilder svg, int y, double part, string colour)
    {
        double width = Math.Max(100 * part * Scale, 1);
        Line(svg, $"<rect x=\"{Left}\" y=\"{y}\" width=\"{width:0.#}\" height=\"{BarHeight}\" fill=\"{colour}\"/><text x=\"{Left + width + 4:0.#}\" y=\"{y + BarHeight}\" font-size=\"8\">{100 * part:0.#} %</text>");
    }

    private static void Line(StringBuilder svg, FormattableString line) => svg.Append(line.ToString(CultureInfo.InvariantCulture)).Append('\n');

    private static void Line(StringBuilder svg, string line) => svg.Append(line).Append('\n');
}
