// What `run` was pointed at: an assembly, a published folder, or a project. Looks at names and at the runtimeconfig.json
// only; building is ProjectBuild's, starting is AppProcess's.

using System.Globalization;
using System.Text.Json;

namespace Millrace.Command.Running;

/// <param name="Assembly">The app's assembly.</param>
/// <param name="WorkingDirectory">Content root of the app: the project's folder, else the assembly's.</param>
/// <param name="Executable">The app's own executable if it brings its runtime along, else null: `dotnet` starts it.</param>
internal sealed record RunnableApp(string Assembly, string WorkingDirectory, string? Executable)
{
    /// <summary>Where links led from the working directory when this was to be started: what is started later works there too. Null: nobody has looked.</summary>
    public string? Folder { get; init; }

    /// <summary>Short name, [a-z0-9_-], for sockets and files.</summary>
    public string ShortName
    {
        get
        {
            string name = Path.GetFileNameWithoutExtension(Assembly).ToLowerInvariant();
            name = string.Concat(name.Select(c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' ? c : '-')).Trim('-');
            return name.Length == 0 ? "app" : name.Length > 40 ? name[..40] : name;
        }
    }
}

internal static class AppTarget
{
    // Of the shared framework that the start-up hook is built for.
    private const int FrameworkMajor = 10;

    private const string Choices = "Name an App.dll, a published folder, or a project folder.";

    /// <summary>The project file behind a target, or null where there is nothing to build.</summary>
    /// <exception cref="CommandFailure">The target does not exist, or is ambiguous.</exception>
    public static string? FindProject(string target)
    {
        if (File.Exists(target))
        {
            return Path.GetExtension(target) is ".csproj" or ".fsproj" or ".vbproj" ? Path.GetFullPath(target) : null;
        }
        if (!Directory.Exists(target))
        {
            throw CommandFailure.Usage($"There is no '{target}'. {Choices}");
        }
        var projects = FoundNames.Of(FilesIn(target, "*.??proj").Where(f => Path.GetExtension(f) is ".csproj" or ".fsproj" or ".vbproj"));
        return projects.Count switch
        {
            0 => null,
            1 => Path.GetFullPath(Path.Combine(target, projects.First[0])),
            _ => throw CommandFailure.Usage($"'{target}' holds {projects.Count} projects. Name one: {projects}."),
        };
    }

    /// <summary>The app in a published folder, or the assembly itself.</summary>
    /// <param name="environment">Variables that it gets on top of those of this process.</param>
    public static RunnableApp FindApp(string target, IReadOnlyDictionary<string, string>? environment = null)
    {
        string assembly = Path.GetFullPath(Directory.Exists(target) ? AssemblyIn(target) : target);
        return Inspect(assembly, Path.GetDirectoryName(assembly)!, environment);
    }

    /// <summary>Checks that the assembly is an ASP.NET Core application that a start-up hook can enter.</summary>
    public static RunnableApp Inspect(string assembly, string workingDirectory, IReadOnlyDictionary<string, string>? environment = null)
    {
        string file = Path.GetFileName(assembly);
        string settings = Path.ChangeExtension(assembly, ".runtimeconfig.json");
        if (!assembly.EndsWith(".dll", StringComparison.OrdinalIgnoreCase) || !File.Exists(settings))
        {
            throw CommandFailure.Usage($"'{file}' is not an application: an App.dll with its App.runtimeconfig.json is. {Choices} (Single-file and native apps keep their own server.)");
        }
        JsonElement options = Read(settings);
        if (Member(Member(options, "configProperties"), "System.StartupHook.Provider.IsSupported").ValueKind == JsonValueKind.False)
        {
            throw new CommandFailure(ExitCode.Failure, $"{file} was published without support for start-up hooks (trimmed), so its server cannot be swapped. Publish it with <StartupHookSupport>true</StartupHookSupport>, or call builder.WebHost.UseMillrace() in its code.");
        }
        var included = Member(options, "includedFrameworks");
        bool bringsRuntime = included.ValueKind != JsonValueKind.Undefined;
        var frameworks = bringsRuntime ? included : Member(options, "frameworks");
        var aspNetCore = (frameworks.ValueKind == JsonValueKind.Array ? frameworks.EnumerateArray() : Enumerable.Repeat(Member(options, "framework"), 1))
            .FirstOrDefault(static framework => Text(framework, "name") == "Microsoft.AspNetCore.App");
        if (aspNetCore.ValueKind != JsonValueKind.Object)
        {
            throw new CommandFailure(ExitCode.Failure, $"{file} is not an ASP.NET Core application: it has no web server to swap.");
        }
        if (MajorOf(aspNetCore) is { } major && major < FrameworkMajor && (bringsRuntime || !RollsForward(options, environment)))
        {
            throw new CommandFailure(ExitCode.Failure, $"{file} is built for ASP.NET Core {major}, and Millrace needs {FrameworkMajor}: build it for net{FrameworkMajor}.0{(bringsRuntime ? "" : ", or run it with DOTNET_ROLL_FORWARD=Major where .NET " + major + " is not installed, else LatestMajor")}.");
        }
        string executable = Path.ChangeExtension(assembly, null);
        return new RunnableApp(assembly, workingDirectory, bringsRuntime ? executable : null);
    }

    private static string AssemblyIn(string folder)
    {
        const string suffix = ".runtimeconfig.json";
        var assemblies = FoundNames.Of(FilesIn(folder, "*" + suffix).Select(static settings => settings[..^suffix.Length] + ".dll"));
        return assemblies.Count switch
        {
            0 => throw CommandFailure.Usage($"'{folder}' holds neither a project nor a published application. {Choices}"),
            1 => Path.Combine(folder, assemblies.First[0]),
            _ => throw CommandFailure.Usage($"'{folder}' holds {assemblies.Count} applications. Name one: {assemblies}."),
        };
    }

    private static IEnumerable<string> FilesIn(string folder, string pattern)
    {
        try
        {
            return Directory.EnumerateFiles(folder, pattern);
        }
        catch (UnauthorizedAccessException)
        {
            throw Closed(folder);
        }
    }

    private static CommandFailure Closed(string path) => new(ExitCode.Failure, $"{path} may not be read. Allow it (chmod, chown): `namei -l {path}` shows who may, from the root on.");

    // As `dotnet` reads it: with comments, and a mark of the byte order.
    private static JsonElement Read(string settings)
    {
        JsonElement options;
        try
        {
            using var json = JsonDocument.Parse(PlainFile.ReadText(settings), new JsonDocumentOptions { CommentHandling = JsonCommentHandling.Skip });
            options = Member(json.RootElement, "runtimeOptions") is { ValueKind: JsonValueKind.Object } found ? found.Clone() : default;
        }
        catch (UnauthorizedAccessException)
        {
            throw Closed(settings);
        }
        catch (IOException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{settings} cannot be read: {error.Message}.");
        }
        catch (JsonException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{settings} cannot be read: {error.Message} Publish the application again.");
        }
        return options.ValueKind == JsonValueKind.Object
            ? options
            : throw new CommandFailure(ExitCode.Failure, $"{settings} cannot be read: it holds no runtimeOptions. Publish the application again.");
    }

    // Undefined where there is none, whatever kind of value it was looked for in.
    private static JsonElement Member(JsonElement value, string name) =>
        value.ValueKind == JsonValueKind.Object && value.TryGetProperty(name, out var member) ? member : default;

    private static string? Text(JsonElement value, string name) =>
        Member(value, name) is { ValueKind: JsonValueKind.String } text ? text.GetString() : null;

    private static int? MajorOf(JsonElement framework) =>
        int.TryParse(Text(framework, "version")?.Split('.')[0], NumberStyles.None, CultureInfo.InvariantCulture, out int major) ? major : null;

    private static bool RollsForward(JsonElement options, IReadOnlyDictionary<string, string>? environment)
    {
        const string variable = "DOTNET_ROLL_FORWARD";
        string? chosen = environment?.GetValueOrDefault(variable) ?? Environment.GetEnvironmentVariable(variable) ?? Text(options, "rollForward");
        return chosen is not null && chosen.EndsWith("Major", StringComparison.OrdinalIgnoreCase);
    }
}
