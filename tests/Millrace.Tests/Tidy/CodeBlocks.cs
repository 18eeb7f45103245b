// The ```csharp blocks of the documents, turned into one C# source text that the compiler of the SDK judges. A block is a
// program or the inside of one. It may take for granted what a project of its kind has (the implicit usings of the SDK), and
// the names that every page of ASP.NET Core's own documentation takes for granted: builder, app, args. Nothing of Millrace.

using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;

namespace Millrace.Tests.Tidy;

internal sealed record CodeBlock(string Document, int Line, string Code)
{
    private const string Opening = "```csharp";

    /// <summary>All of them, in the order of the documents.</summary>
    public static IReadOnlyList<CodeBlock> All(IEnumerable<string> documents) => [.. documents.SelectMany(In)];

    private static IEnumerable<CodeBlock> In(string path)
    {
        string document = Path.GetRelativePath(Repository.Root, path);
        string[] lines = File.ReadAllLines(path);
        for (int i = 0; i < lines.Length; i++)
        {
            if (lines[i].Trim() == Opening)
            {
                int end = Array.FindIndex(lines, i, static line => line.Trim() == "```");
                yield return new CodeBlock(document, i + 2, string.Join('\n', lines[(i + 1)..end]));
                i = end;
            }
        }
    }
}

internal static partial class CodeBlocks
{
    private static readonly string[] s_consoleUsings =
        ["System", "System.Collections.Generic", "System.IO", "System.Linq", "System.Net.Http", "System.Threading", "System.Threading.Tasks"];

    private static readonly string[] s_webUsings =
    [
        .. s_consoleUsings, "System.Net.Http.Json", "Microsoft.AspNetCore.Builder", "Microsoft.AspNetCore.Hosting", "Microsoft.AspNetCore.Http", "Microsoft.AspNetCore.Routing",
        "Microsoft.Extensions.Configuration", "Microsoft.Extensions.DependencyInjection", "Microsoft.Extensions.Hosting", "Microsoft.Extensions.Logging",
    ];

    /// <summary>Each block as the body of a method in a namespace of its own; errors are reported at the document's lines.</summary>
    public static string ToSource(IReadOnlyList<CodeBlock> blocks)
    {
        var source = new StringBuilder();
        for (int i = 0; i < blocks.Count; i++)
        {
            Append(source, blocks[i], i);
        }
        return source.ToString();
    }

    private static void Append(StringBuilder source, CodeBlock block, int number)
    {
        bool isWeb = Web().IsMatch(block.Code);
        string[] lines = block.Code.Split('\n');
        string result = lines.Any(static line => line.StartsWith("return ", StringComparison.Ordinal)) ? "Task<int>" : "Task";
        source.AppendLine(CultureInfo.InvariantCulture, $"namespace Block{number}");
        source.AppendLine("{");
        foreach (string name in isWeb ? s_webUsings : s_consoleUsings)
        {
            source.AppendLine(CultureInfo.InvariantCulture, $"using {name};");
        }
        foreach ((string line, int i) in lines.Select(static (line, i) => (line, i)).Where(static pair => Using().IsMatch(pair.line)))
        {
            source.AppendLine(At(block, i)).AppendLine(line);
        }
        source.AppendLine("#line default").AppendLine("static class Page").AppendLine("{");
        if (isWeb)
        {
            source.AppendLine("static WebApplicationBuilder builder = null!;").AppendLine("static WebApplication app = null!;");
        }
        source.AppendLine(CultureInfo.InvariantCulture, $"static async {result} Run(string[] args)").AppendLine("{");
        source.AppendLine(At(block, 0));
        foreach (string line in lines)
        {
            source.AppendLine(Using().IsMatch(line) ? "" : line);
        }
        source.AppendLine("#line default").AppendLine("}").AppendLine("}").AppendLine("}");
    }

    private static string At(CodeBlock block, int offset) => string.Create(CultureInfo.InvariantCulture, $"#line {block.Line + offset} \"{block.Document}\"");

    /// <summary>Compiles a source text against the framework these tests run on, Millrace and Millrace.Sessions.</summary>
    /// <returns>The compiler's errors; empty if there are none.</returns>
    public static async Task<string> CompileAsync(string source)
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("millrace-blocks-");
        try
        {
            string file = Path.Combine(folder.FullName, "Blocks.cs");
            await File.WriteAllTextAsync(file, source);
            string arguments = Path.Combine(folder.FullName, "arguments.rsp");
            IEnumerable<string> framework = ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!).Split(':').Where(static path => path.Contains("/shared/", StringComparison.Ordinal));
            IEnumerable<string> references = framework.Append(typeof(MillraceServer).Assembly.Location).Append(typeof(global::Millrace.Protocols.ReadResult).Assembly.Location)
                .Append(typeof(global::Millrace.Workers.WorkerPoolOptions).Assembly.Location).Append(typeof(global::Millrace.Connector.FastCgiProgramOptions).Assembly.Location)
                .Append(typeof(global::Millrace.Sessions.MillraceSessionOptions).Assembly.Location);
            await File.WriteAllLinesAsync(arguments,
            [
                "-nologo", "-target:library", "-nullable:enable", "-nowarn:CS1998,CS8321", "-langversion:14", $"-out:\"{folder.FullName}/Blocks.dll\"",
                .. references.Select(static path => $"-reference:\"{path}\""), $"\"{file}\"",
            ]);
            return await RunAsync([Compiler(), "-noconfig", "-nostdlib", "@" + arguments]);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    // DOTNET/shared/Microsoft.NETCore.App/10.0.1/ -> DOTNET/sdk/10.0.100/Roslyn/bincore/csc.dll, the newest there is.
    private static string Compiler()
    {
        string dotnet = Path.GetFullPath(Path.Combine(RuntimeEnvironment.GetRuntimeDirectory(), "../../.."));
        return Directory.EnumerateDirectories(Path.Combine(dotnet, "sdk"))
            .Where(static path => Version.TryParse(Path.GetFileName(path), out _))
            .OrderBy(static path => Version.Parse(Path.GetFileName(path)))
            .Select(static path => Path.Combine(path, "Roslyn/bincore/csc.dll"))
            .Last(File.Exists);
    }

    private static async Task<string> RunAsync(IEnumerable<string> arguments)
    {
        var start = new ProcessStartInfo("dotnet", arguments) { RedirectStandardOutput = true, RedirectStandardError = true, WorkingDirectory = Repository.Root };
        using Process process = Process.Start(start)!;
        Task<string> output = process.StandardOutput.ReadToEndAsync();
        Task<string> error = process.StandardError.ReadToEndAsync();
        await process.WaitForExitAsync();
        string said = await output + await error;
        string errors = string.Join('\n', said.Split('\n').Where(static line => line.Contains(": error ", StringComparison.Ordinal)));
        return process.ExitCode == 0 ? errors : errors.Length > 0 ? errors : $"The compiler failed ({process.ExitCode}): {said}";
    }

    [GeneratedRegex(@"\b(WebApplication|builder\.|app\.)")]
    private static partial Regex Web();

    [GeneratedRegex(@"^using [\w.]+;$")]
    private static partial Regex Using();
}
