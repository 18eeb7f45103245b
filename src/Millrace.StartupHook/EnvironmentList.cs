// Environment variables that hold a list which others may have entries in too: only single entries come and go.

namespace Millrace.StartupHooks;

internal static class EnvironmentList
{
    /// <summary>Read by the runtime before Main; separated by ':' on Unix.</summary>
    public const string StartupHooks = "DOTNET_STARTUP_HOOKS";

    public static void Add(string variable, char separator, string entry)
    {
        string? list = Environment.GetEnvironmentVariable(variable);
        Environment.SetEnvironmentVariable(variable, string.IsNullOrEmpty(list) ? entry : list + separator + entry);
    }

    public static void Remove(string variable, char separator, Predicate<string> isOurs)
    {
        string? list = Environment.GetEnvironmentVariable(variable);
        if (string.IsNullOrEmpty(list))
        {
            return;
        }
        var others = Array.FindAll(list.Split(separator), entry => !isOurs(entry.Trim()));
        Environment.SetEnvironmentVariable(variable, others.Length == 0 ? null : string.Join(separator, others));
    }
}
