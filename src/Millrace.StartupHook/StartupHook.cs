// The entry point the runtime calls before Main of an app started with DOTNET_STARTUP_HOOKS (the name, the missing
// namespace and the signature are fixed by the runtime). It prepares the two roads to the app's server and returns;
// nothing of ASP.NET Core or of Millrace is loaded unless the app builds a web host.

using Millrace.StartupHooks;

internal static class StartupHook
{
    public static void Initialize()
    {
        // :: Step 1: this hook has been used; child processes of the app must not inherit it.
        EnvironmentList.Remove(EnvironmentList.StartupHooks, ':', IsThisAssembly);
        RunRequest.TakeFromEnvironment();

        // :: Step 2: assemblies the app does not carry are found beside the hook.
        AssemblyLookup.Install();

        // :: Step 3: generic hosts announce themselves.
        HostBuildingListener.Subscribe();

        // :: Step 4: legacy web hosts ask their hosting start-up assemblies.
        HostingStartups.AddOurs();
    }

    private static bool IsThisAssembly(string entry)
    {
        string name = Path.GetFileName(entry);
        return name is AssemblyLookup.HookName or AssemblyLookup.HookName + ".dll";
    }
}
