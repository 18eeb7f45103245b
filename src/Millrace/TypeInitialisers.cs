// Static fields are made when they are first needed. Where there is no memory just then, their type fails for good, and with it each request that needs
// it, whatever memory there is later. So they are made at the start.

using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using System.Runtime.CompilerServices;
using Millrace.Protocols.Http1;

namespace Millrace;

internal static class TypeInitialisers
{
    private static readonly Lock s_lock = new();
    private static bool s_haveRun;

    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = "A type that has been trimmed away needs no static fields.")]
    [UnconditionalSuppressMessage("Trimming", "IL2059", Justification = "A type that has lost its initialiser needs none.")]
    [UnconditionalSuppressMessage("Trimming", "IL2075", Justification = "A type that has lost its initialiser needs none.")]
    public static void Run()
    {
        lock (s_lock)
        {
            if (s_haveRun)
            {
                return;
            }

            foreach (Assembly assembly in new[] { typeof(TypeInitialisers).Assembly, typeof(Http1Head).Assembly })
            {
                foreach (Type type in assembly.GetTypes())
                {
                    if (!type.ContainsGenericParameters && type.TypeInitializer is not null)
                    {
                        RuntimeHelpers.RunClassConstructor(type.TypeHandle);
                    }
                }
            }

            s_haveRun = true;
        }
    }
}
