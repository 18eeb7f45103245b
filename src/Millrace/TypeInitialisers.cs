// Static fields are made when they are first needed. Where there is no memory just then, their type fails for good, and with it each request that needs
// it, whatever memory there is later. So they are made at the start. A plain server makes its own by name: to look for those of hosts would load the
// assemblies of ASP.NET Core that it has no other use for, two descriptors each.

using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using System.Runtime.CompilerServices;
using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols.Http1;

namespace Millrace;

internal static class TypeInitialisers
{
    private static readonly Lock s_lock = new();
    private static int s_haveRun;       // 1: for plain servers, 2: for hosts too

    /// <summary>Types of this assembly that are not in AspNetCore and have static fields.</summary>
    internal static IReadOnlyList<Type> OfPlainServers { get; } =
    [
        typeof(ConnectionIds), typeof(DecimalText), typeof(FieldNames), typeof(FieldText), typeof(ServerLines), typeof(IdleSignals), typeof(ListenSocket), typeof(DriverThread),
        typeof(MovedConnection), typeof(Log), typeof(Refusal), typeof(BatchScheduling), typeof(BufferPool), typeof(CodeWatch), typeof(ForeignCalls), typeof(SystemCalls), typeof(SystemCalls.ArchitectureNumbers),
    ];

    /// <param name="hosted">Whether there is a host of ASP.NET Core.</param>
    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = "A type that has been trimmed away needs no static fields.")]
    public static void Run(bool hosted)
    {
        lock (s_lock)
        {
            if (s_haveRun < (hosted ? 2 : 1))
            {
                IEnumerable<Type> own = hosted ? typeof(TypeInitialisers).Assembly.GetTypes() : OfPlainServers;
                foreach (Type type in own.Concat(typeof(Http1Head).Assembly.GetTypes()))
                {
                    if (!type.ContainsGenericParameters)
                    {
                        RunOf(type);
                    }
                }

                s_haveRun = hosted ? 2 : 1;
            }
        }
    }
    [UnconditionalSuppressMessage("Trimming", "IL2059", Justification = "A type that has lost its initialiser needs none.")]
    private static void RunOf(Type type)
    {
        try
        {
            RuntimeHelpers.RunClassConstructor(type.TypeHandle);
        }
        catch (NotSupportedException) when (!RuntimeFeature.IsDynamicCodeSupported)
        {
            // Compiled ahead of time, and nothing of it is there but its name.
        }
    }
}
