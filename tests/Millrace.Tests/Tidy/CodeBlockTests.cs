// Whoever copies C# out of a document gets something that compiles.

namespace Millrace.Tests.Tidy;

public sealed class CodeBlockTests
{
    private static readonly string[] s_documents =
        [.. Directory.EnumerateFiles(Repository.Root, "*.md").Concat(Repository.Sources("docs", "*.md")).Order(StringComparer.Ordinal)];

    [Fact]
    public async Task Every_block_of_csharp_in_the_documents_compiles()
    {
        IReadOnlyList<CodeBlock> blocks = CodeBlock.All(s_documents);
        Assert.Contains(blocks, static block => block.Document == "README.md");
        Assert.Contains(blocks, static block => block.Document == "docs/aspnetcore.md");

        Assert.Equal("", await CodeBlocks.CompileAsync(CodeBlocks.ToSource(blocks)));
    }

    [Fact]
    public async Task A_block_that_lacks_a_using_is_reported_at_its_line_of_the_document()
    {
        var block = new CodeBlock("docs/x.md", 41, "int fine = 1;\nvar server = await MillraceServer.StartAsync(\"fastcgi://127.0.0.1:0\", static (_, _) => { });");

        string errors = await CodeBlocks.CompileAsync(CodeBlocks.ToSource([block]));

        Assert.Contains("docs/x.md(42,", errors, StringComparison.Ordinal);
        Assert.Contains("error CS0103", errors, StringComparison.Ordinal);
    }
}
