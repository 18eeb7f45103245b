// What users get: one package with both assemblies, their documentation and the read-me, and no dependency besides the
// framework.

using System.Diagnostics;
using System.IO.Compression;
using System.Xml.Linq;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Tidy;

[Collection(AloneCollection.Name)]
public sealed class PackageTests
{
    [Fact]
    public async Task The_package_holds_both_assemblies_their_documentation_and_the_readme_and_depends_on_the_framework_alone()
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("millrace-pack-");
        try
        {
            await Pack(folder.FullName);
            using ZipArchive package = ZipFile.OpenRead(Assert.Single(folder.GetFiles("Millrace.*.nupkg")).FullName);
            string[] entries = [.. package.Entries.Select(static entry => entry.FullName)];
            Assert.Superset(
                new HashSet<string> { "README.md", "lib/net10.0/Millrace.dll", "lib/net10.0/Millrace.xml", "lib/net10.0/Millrace.Protocols.dll", "lib/net10.0/Millrace.Protocols.xml" },
                entries.ToHashSet());
            Assert.Equal(4, entries.Count(static entry => entry.StartsWith("lib/", StringComparison.Ordinal)));
            await using Stream stream = package.GetEntry("Millrace.nuspec")!.Open();
            CheckSpecification(XDocument.Load(stream));
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    private static void CheckSpecification(XDocument specification)
    {
        Assert.DoesNotContain(specification.Descendants(), static element => element.Name.LocalName == "dependency");
        Assert.Equal("Microsoft.AspNetCore.App", Assert.Single(specification.Descendants(), static e => e.Name.LocalName == "frameworkReference").Attribute("name")!.Value);
        Assert.Equal("README.md", Assert.Single(specification.Descendants(), static e => e.Name.LocalName == "readme").Value);
        Assert.Equal("MIT", Assert.Single(specification.Descendants(), static e => e.Name.LocalName == "license").Value);
        Assert.NotEmpty(Assert.Single(specification.Descendants(), static e => e.Name.LocalName == "description").Value);
    }

    // What was built for these tests is packed; nothing is built or restored anew.
    private static async Task Pack(string folder)
    {
        string configuration = AppContext.BaseDirectory.Contains("/Release/", StringComparison.Ordinal) ? "Release" : "Debug";
        var start = new ProcessStartInfo("dotnet", ["pack", Path.Combine(Repository.Root, "src/Millrace"), "--no-build", "--no-restore", "-p:BuildProjectReferences=false", "-c", configuration, "-o", folder, "--nologo", "-v", "q"])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            UseShellExecute = false,
        };
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        using Process process = Process.Start(start)!;
        Task<string> output = process.StandardOutput.ReadToEndAsync();
        Task<string> error = process.StandardError.ReadToEndAsync();
        await process.WaitForExitAsync();
        Assert.True(process.ExitCode == 0, $"dotnet pack: {await output}{await error}");
    }
}
