// Our place among the hosting start-up assemblies that ASP.NET Core's web host builders read from the environment. Where all
// of them are to be left out (ASPNETCORE_PREVENTHOSTINGSTARTUP), ours is made the only one: the prohibition is taken away for
// as long as it takes, with the lists of the others, and the app's own assembly, which is asked without being named, is
// excluded. When the server has been swapped all variables are as they were, for the app and its children to read.

using System.Reflection;

namespace Millrace.StartupHooks;

internal static class HostingStartups
{
    private const string Assemblies = "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES";
    private const string Excluded = "ASPNETCORE_HOSTINGSTARTUPEXCLUDEASSEMBLIES";
    private const string Prevent = "ASPNETCORE_PREVENTHOSTINGSTARTUP";

    private static Dictionary<string, string?>? s_before;

    public static void AddOurs()
    {
        if (!IsPrevented())
        {
            EnvironmentList.Add(Assemblies, ';', AssemblyLookup.HookName);
            return;
        }

        s_before = new[] { Assemblies, Excluded, Prevent }.ToDictionary(static name => name, Environment.GetEnvironmentVariable);
        Environment.SetEnvironmentVariable(Prevent, null);
        Environment.SetEnvironmentVariable(Assemblies, AssemblyLookup.HookName);
        Environment.SetEnvironmentVariable(Excluded, Assembly.GetEntryAssembly()?.GetName().Name);
    }

    public static void PutBack()
    {
        if (Interlocked.Exchange(ref s_before, null) is not { } before)
        {
            EnvironmentList.Remove(Assemblies, ';', static entry => entry == AssemblyLookup.HookName);
            return;
        }
        foreach ((string name, string? value) in before)
        {
            Environment.SetEnvironmentVariable(name, value);
        }
    }

    // As ASP.NET Core reads it: "true" in any case, or 1.
    private static bool IsPrevented() => Environment.GetEnvironmentVariable(Prevent) is { } value
        && (value.Equals("true", StringComparison.OrdinalIgnoreCase) || value == "1");
}
