// docs/front-ends.md says what the end-to-end list really finds.
//
//   MILLRACE_APPROVE_TABLE=1    writes the table into the file instead of comparing
using Millrace.Interop.Command;

namespace Millrace.Interop.Table;

public sealed class FrontEndTableTests
{
    private const string Begin = "<!-- what follows is written by MILLRACE_APPROVE_TABLE=1 ./check interop --filter FrontEndTable -->\n";
    private const string End = "<!-- end of what is written -->\n";

    [Fact]
    public async Task Table_of_front_ends_is_what_the_tests_assert()
    {
        string path = Path.Combine(CommandProcess.Repository, "docs", "front-ends.md");
        string text = await File.ReadAllTextAsync(path);
        int begin = text.IndexOf(Begin, StringComparison.Ordinal);
        int end = text.IndexOf(End, StringComparison.Ordinal);
        Assert.True(begin >= 0 && end > begin, $"{path} has lost the lines between which the table stands.");
        string written = text[(begin + Begin.Length)..end];
        string asserted = FrontEndTable.Render();
        if (Environment.GetEnvironmentVariable("MILLRACE_APPROVE_TABLE") == "1")
        {
            await File.WriteAllTextAsync(path, text[..(begin + Begin.Length)] + asserted + text[end..]);
            return;
        }

        Assert.True(written == asserted, $"{path} is behind the tests. Run: MILLRACE_APPROVE_TABLE=1 ./check interop --filter FrontEndTable");
    }

    [Fact]
    public void Deviation_stands_only_where_an_item_of_the_list_is_overridden()
    {
        string[] strays =
        [
            .. typeof(EndToEndList).Assembly.GetTypes()
                .SelectMany(static type => type.GetMethods())
                .Where(static method => Attribute.IsDefined(method, typeof(DeviationAttribute), inherit: false)
                    && method.GetBaseDefinition().DeclaringType != typeof(EndToEndList))
                .Select(static method => $"{method.DeclaringType!.Name}.{method.Name}"),
        ];
        Assert.Empty(strays);
    }

    [Fact]
    public void Item_that_is_overridden_says_why()
    {
        string[] silent =
        [
            .. typeof(EndToEndList).Assembly.GetTypes()
                .Where(static type => type.IsSubclassOf(typeof(EndToEndList)))
                .SelectMany(static type => type.GetMethods())
                .Where(static method => Attribute.IsDefined(method, typeof(FactAttribute))
                    && method.DeclaringType != typeof(EndToEndList)
                    && !Attribute.IsDefined(method, typeof(DeviationAttribute)))
                .Select(static method => $"{method.DeclaringType!.Name}.{method.Name}")
                .Distinct(),
        ];
        Assert.Empty(silent);
    }

    [Theory]
    [InlineData("Get_is_answered", "Get is answered")]
    [InlineData("Head_has_no_body_RFC9110_9_3_2", "Head has no body (RFC 9110, 9.3.2)")]
    [InlineData("Header_never_arrives_over_FastCgi_CVE_2016_5385", "Header never arrives over FastCGI (CVE-2016-5385)")]
    public void Name_of_a_test_reads_as_a_sentence(string name, string sentence) =>
        Assert.Equal(sentence, FrontEndTable.Sentence(name));
}
