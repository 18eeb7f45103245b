// Finds Millrace's assemblies beside the hook when the app does not carry them. The runtime asks here only after it has
// looked among the app's own files: a copy the app brings along wins.

using System.Reflection;
using System.Runtime.Loader;

namespace Millrace.StartupHooks;

internal static class AssemblyLookup
{
    /// <summary>The simple name of the hook's assembly.</summary>
    public const string HookName = "Millrace.StartupHook";

    private static readonly string Folder = Path.GetDirectoryName(typeof(AssemblyLookup).Assembly.Location) ?? "";

    public static void Install() => AssemblyLoadContext.Default.Resolving += Resolve;

    private static Assembly? Resolve(AssemblyLoadContext context, AssemblyName name)
    {
        switch (name.Name)
        {
            case HookName:
                return typeof(AssemblyLookup).Assembly;
            case "Millrace" or "Millrace.Protocols":
                string file = Path.Combine(Folder, name.Name + ".dll");
                return File.Exists(file) ? context.LoadFromAssemblyPath(file) : null;
            default:
                return null;
        }
    }
}
