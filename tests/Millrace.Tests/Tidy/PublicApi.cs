// Renders the public surface of an assembly as text, one line for each type and member, in an order that does not depend on
// the source.

using System.Globalization;
using System.Reflection;
using System.Text;

namespace Millrace.Tests.Tidy;

internal static class PublicApi
{
    private const BindingFlags Declared = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly;

    public static string Of(Assembly assembly)
    {
        var text = new StringBuilder();
        foreach (Type type in assembly.GetExportedTypes().OrderBy(static type => type.FullName, StringComparer.Ordinal))
        {
            text.Append(Head(type)).Append('\n');
            foreach (string member in Members(type).Order(StringComparer.Ordinal))
            {
                text.Append("    ").Append(member).Append('\n');
            }
        }

        return text.ToString();
    }

    private static string Head(Type type)
    {
        string kind = type.IsEnum ? "enum" : type.IsInterface ? "interface" : type.IsValueType ? "struct" : typeof(Delegate).IsAssignableFrom(type) ? "delegate" : "class";
        string modifier = kind != "class" ? "" : type is { IsAbstract: true, IsSealed: true } ? "static " : type.IsAbstract ? "abstract " : type.IsSealed ? "sealed " : "";
        var bases = new List<string>();
        if (type.IsEnum)
        {
            bases.Add(Name(Enum.GetUnderlyingType(type)));
        }
        else if (type.BaseType is { } parent && parent != typeof(object) && parent != typeof(ValueType))
        {
            bases.Add(Name(parent));
        }

        if (!type.IsEnum)
        {
            bases.AddRange(type.GetInterfaces().Where(static i => i.IsPublic).Select(Name).Order(StringComparer.Ordinal));
        }

        return $"{modifier}{kind} {type.Namespace}.{Name(type)}{(bases.Count > 0 ? " : " + string.Join(", ", bases) : "")}";
    }

    private static IEnumerable<string> Members(Type type)
    {
        if (type.IsEnum)
        {
            return Enum.GetNames(type).Select(name => string.Create(CultureInfo.InvariantCulture, $"{name} = {Convert.ToInt64(Enum.Parse(type, name), CultureInfo.InvariantCulture)}"));
        }

        return type.GetFields(Declared).Where(static f => f.IsPublic || f.IsFamily).Select(Field)
            .Concat(type.GetConstructors(Declared).Where(static c => IsVisible(c) && !c.IsStatic).Select(c => $"new({Parameters(c)})"))
            .Concat(type.GetProperties(Declared).Where(static p => p.GetAccessors(true).Any(IsVisible)).Select(Property))
            .Concat(type.GetEvents(Declared).Where(static e => IsVisible(e.AddMethod!)).Select(static e => $"event {Name(e.EventHandlerType!)} {e.Name}"))
            .Concat(type.GetMethods(Declared).Where(static m => IsVisible(m) && (!m.IsSpecialName || m.Name.StartsWith("op_", StringComparison.Ordinal))).Select(Method));
    }

    private static bool IsVisible(MethodBase method) => method.IsPublic || method.IsFamily || method.IsFamilyOrAssembly;

    private static string Field(FieldInfo field) =>
        field.IsLiteral ? string.Create(CultureInfo.InvariantCulture, $"const {Name(field.FieldType)} {field.Name} = {field.GetRawConstantValue()}")
        : $"{Static(field.IsStatic)}{(field.IsInitOnly ? "readonly " : "")}{Name(field.FieldType)} {field.Name}";

    private static string Property(PropertyInfo property)
    {
        string accessors = string.Concat(property.GetAccessors(true).Where(IsVisible).Select(static a => a.Name.StartsWith("get_", StringComparison.Ordinal) ? "get; " : IsInit(a) ? "init; " : "set; "));
        string index = property.GetIndexParameters().Length > 0 ? $"[{string.Join(", ", property.GetIndexParameters().Select(Parameter))}]" : "";
        return $"{Static(property.GetAccessors(true)[0].IsStatic)}{Name(property.PropertyType)} {property.Name}{index} {{ {accessors}}}";
    }

    private static bool IsInit(MethodInfo setter) =>
        setter.ReturnParameter.GetRequiredCustomModifiers().Contains(typeof(System.Runtime.CompilerServices.IsExternalInit));

    private static string Method(MethodInfo method)
    {
        string generic = method.IsGenericMethod ? $"<{string.Join(", ", method.GetGenericArguments().Select(Name))}>" : "";
        return $"{Static(method.IsStatic)}{Name(method.ReturnType)} {method.Name}{generic}({Parameters(method)})";
    }

    private static string Static(bool isStatic) => isStatic ? "static " : "";

    private static string Parameters(MethodBase method) => string.Join(", ", method.GetParameters().Select(Parameter));

    private static string Parameter(ParameterInfo parameter)
    {
        string modifier = parameter.IsOut ? "out " : parameter is { ParameterType.IsByRef: true, IsIn: true } ? "in " : parameter.ParameterType.IsByRef ? "ref " : "";
        string ending = parameter.HasDefaultValue ? string.Create(CultureInfo.InvariantCulture, $" = {parameter.DefaultValue ?? "default"}") : "";
        return $"{modifier}{Name(parameter.ParameterType)} {parameter.Name}{ending}";
    }

    private static string Name(Type type)
    {
        if (type.IsByRef)
        {
            return Name(type.GetElementType()!);
        }

        if (type.IsArray)
        {
            return Name(type.GetElementType()!) + "[]";
        }

        if (Nullable.GetUnderlyingType(type) is { } value)
        {
            return Name(value) + "?";
        }

        string name = type.IsNested && !type.IsGenericParameter ? $"{Name(type.DeclaringType!)}.{type.Name}" : type.Name;
        return type.IsGenericType ? $"{name.Split('`')[0]}<{string.Join(", ", type.GetGenericArguments().Select(Name))}>" : name;
    }
}
