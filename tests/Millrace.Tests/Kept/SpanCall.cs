// Calls a member that takes or answers spans, which reflection cannot: by a method that is made for it.

using System.Reflection;
using System.Reflection.Emit;
using System.Text;

namespace Millrace.Tests.Kept;

/// <summary>Calls the member with these arguments; those that are spans are made here. A span that it answers comes back as text.</summary>
internal delegate object? SpanCall(object target, object?[] arguments);

internal static class SpanCalls
{
    public static bool IsNeededFor(MethodInfo method) => method.ReturnType.IsByRefLike || method.GetParameters().Any(static parameter => parameter.ParameterType.IsByRefLike);

    public static SpanCall Of(MethodInfo method)
    {
        var made = new DynamicMethod($"Call {method.Name}", typeof(object), [typeof(object), typeof(object?[])], typeof(SpanCalls).Module, skipVisibility: true);
        ILGenerator code = made.GetILGenerator();
        code.Emit(OpCodes.Ldarg_0);
        code.Emit(method.DeclaringType!.IsValueType ? OpCodes.Unbox : OpCodes.Castclass, method.DeclaringType);
        foreach (ParameterInfo parameter in method.GetParameters())
        {
            if (parameter.ParameterType.IsByRefLike)
            {
                code.Emit(OpCodes.Call, Maker(parameter.ParameterType));
            }
            else
            {
                code.Emit(OpCodes.Ldarg_1);
                code.Emit(OpCodes.Ldc_I4, parameter.Position);
                code.Emit(OpCodes.Ldelem_Ref);
                code.Emit(OpCodes.Unbox_Any, parameter.ParameterType);
            }
        }

        code.Emit(method.DeclaringType.IsValueType ? OpCodes.Call : OpCodes.Callvirt, method);
        if (method.ReturnType == typeof(void))
        {
            code.Emit(OpCodes.Ldnull);
        }
        else if (method.ReturnType.IsByRefLike)
        {
            code.Emit(OpCodes.Call, Shower(method.ReturnType));
        }
        else if (method.ReturnType.IsValueType)
        {
            code.Emit(OpCodes.Box, method.ReturnType);
        }

        code.Emit(OpCodes.Ret);
        return made.CreateDelegate<SpanCall>();
    }

    public static Span<byte> Bytes() => new byte[64];

    public static ReadOnlySpan<byte> ProbeBytes() => Encoding.ASCII.GetBytes(KeptMember.Probe);

    public static ReadOnlySpan<char> ProbeText() => KeptMember.Probe;

    public static ReadOnlySpan<KeyValuePair<string, string>> ProbePairs() => new KeyValuePair<string, string>[] { new("X-" + KeptMember.Probe, KeptMember.Probe) };

    public static object? Shown(Span<byte> bytes) => Encoding.Latin1.GetString(bytes);

    public static object? ShownReadOnly(ReadOnlySpan<byte> bytes) => Encoding.Latin1.GetString(bytes);

    private static MethodInfo Maker(Type type) => typeof(SpanCalls).GetMethod(
        type == typeof(Span<byte>) ? nameof(Bytes) : type == typeof(ReadOnlySpan<byte>) ? nameof(ProbeBytes) : type == typeof(ReadOnlySpan<char>) ? nameof(ProbeText)
            : type == typeof(ReadOnlySpan<KeyValuePair<string, string>>) ? nameof(ProbePairs) : throw new MissingArgumentException(type))!;

    private static MethodInfo Shower(Type type) => typeof(SpanCalls).GetMethod(
        type == typeof(Span<byte>) ? nameof(Shown) : type == typeof(ReadOnlySpan<byte>) ? nameof(ShownReadOnly) : throw new MissingArgumentException(type))!;
}

/// <summary>A member takes what no test has made yet: add it to <see cref="KeptMember"/>, so that the member is called.</summary>
internal sealed class MissingArgumentException(Type type) : Exception($"Nobody has said what a member that takes {type} is called with.");
