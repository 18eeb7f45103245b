// One public member of an object that an application has kept: how it is called, and what came of it as text.

using System.Buffers;
using System.Collections;
using System.Globalization;
using System.IO.Pipelines;
using System.Net;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Security.Claims;
using System.Text;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Primitives;

namespace Millrace.Tests.Kept;

internal sealed class KeptMember(object target, MethodInfo method)
{
    /// <summary>What the calls write: it must never be seen by anybody.</summary>
    public const string Probe = "PROBE";

    private static readonly string[] s_notCalled =
    [
        "Equals", "GetHashCode", "GetType", "ToString", "MemberwiseClone", "Finalize", "GetLifetimeService", "InitializeLifetimeService", "CreateObjRef",
        "CreateWaitHandle",
    ];

    private readonly ParameterInfo[] _parameters = method.GetParameters();
    private readonly SpanCall? _spanCall = SpanCalls.IsNeededFor(method) ? SpanCalls.Of(method) : null;

    public object Target => target;

    public string Name => $"{target.GetType().Name}.{method.DeclaringType!.Name}.{method.Name}";

    public string Method => method.Name;

    /// <summary>The object's class; that of an iterator by the class that made it.</summary>
    public string Class => target.GetType() is { DeclaringType: { } maker } iterator && iterator.Name.StartsWith('<') ? $"{maker.Name}'s enumerator" : target.GetType().Name;

    /// <summary>Whether the object's class is the server's own: then it must say that its request has ended.</summary>
    public bool IsOurs => target.GetType().Assembly == typeof(MillraceServer).Assembly;

    /// <summary>What it answers is the connection's own, which outlives the request.</summary>
    public bool IsOfConnection => method.DeclaringType == typeof(IConnectionLifetimeFeature) || method.DeclaringType == typeof(IConnectionLifetimeNotificationFeature);

    /// <summary>All public members of an object, those of interfaces that it implements too.</summary>
    public static IEnumerable<KeptMember> Of(object kept)
    {
        Type type = kept.GetType();
        var seen = new HashSet<MethodInfo>();
        IEnumerable<MethodInfo> own = Ancestors(type).Where(static ancestor => ancestor.IsVisible)
            .SelectMany(static ancestor => ancestor.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly));
        IEnumerable<MethodInfo> implemented = type.GetInterfaces().Where(static each => each.IsVisible).SelectMany(static each => each.GetMethods());
        foreach (MethodInfo method in own.Concat(implemented))
        {
            MethodInfo callable = method.IsGenericMethodDefinition ? method.MakeGenericMethod(typeof(IHttpRequestFeature)) : method;
            if (!method.IsStatic && !s_notCalled.Contains(method.Name) && seen.Add(callable))
            {
                yield return new KeptMember(kept, callable);
            }
        }
    }

    private static IEnumerable<Type> Ancestors(Type type)
    {
        for (Type? each = type; each is not null && each != typeof(object); each = each.BaseType)
        {
            yield return each;
        }
    }

    /// <summary>Members that answer something without being asked for anything, such as properties: what they answer is kept too.</summary>
    public bool IsGetter => _parameters.Length == 0 && method.ReturnType != typeof(void)
        && (method.IsSpecialName || method.Name is "GetEnumerator" or "GetAsyncEnumerator");

    public object? Call()
    {
        object?[] arguments = [.. _parameters.Select(static parameter => parameter.ParameterType.IsByRefLike ? null : Make(parameter.ParameterType))];
        return _spanCall is null ? method.Invoke(target, BindingFlags.DoNotWrapExceptions, null, arguments, CultureInfo.InvariantCulture) : _spanCall(target, arguments);
    }

    /// <summary>Calls it and answers what it said, or what it threw.</summary>
    public (string? Said, Exception? Threw) Ask()
    {
        try
        {
            return (Shown(Call()), null);
        }
        catch (Exception error)
        {
            return (null, error);
        }
    }

    // ---- what is given ----

    // What is only looked at behind the end of the request, or never.
    private static readonly Dictionary<Type, Func<object?>> s_made = new()
    {
        [typeof(IFeatureCollection)] = static () => new FeatureCollection(),
        [typeof(IServiceProvider)] = static () => new ServiceCollection().BuildServiceProvider(),
        [typeof(IRequestCookieCollection)] = static () => new DefaultHttpContext().Request.Cookies,
        [typeof(CookieOptions)] = static () => new CookieOptions(),
        [typeof(IFormCollection)] = static () => FormCollection.Empty,
        [typeof(IQueryCollection)] = static () => QueryCollection.Empty,
        [typeof(ISession)] = static () => null,
        [typeof(FormOptions)] = static () => new FormOptions(),
        [typeof(WebSocketAcceptContext)] = static () => new WebSocketAcceptContext(),
        [typeof(MinDataRate)] = static () => null,
        [typeof(IServiceScopeFactory)] = static () => new ServiceCollection().BuildServiceProvider().GetRequiredService<IServiceScopeFactory>(),
        [typeof(EndPoint)] = static () => new IPEndPoint(IPAddress.Parse("6.6.6.6"), 6),
        [typeof(KeyValuePair<object, object>[])] = static () => new KeyValuePair<object, object?>[64],
        [typeof(KeyValuePair<string, object>[])] = static () => new KeyValuePair<string, object?>[64],
        [typeof(Endpoint)] = static () => new Endpoint(null, EndpointMetadataCollection.Empty, Probe),
        [typeof(System.Security.Cryptography.X509Certificates.X509Certificate2)] = static () => null,
        [typeof(PipeWriter)] = static () => PipeWriter.Create(Stream.Null),
        [typeof(PipeReader)] = static () => PipeReader.Create(Stream.Null),
        [typeof(Exception)] = static () => new InvalidTimeZoneException(Probe),
        [typeof(AsyncCallback)] = static () => null,
        [typeof(IAsyncResult)] = static () => Task.CompletedTask,
        [typeof(IDisposable)] = static () => Stream.Null,
        [typeof(IAsyncDisposable)] = static () => Stream.Null,
        [typeof(string[])] = static () => new string[] { Probe },
        [typeof(IDictionary<object, object?>)] = static () => new Dictionary<object, object?>(),
        [typeof(IDictionary<object, object>)] = static () => new Dictionary<object, object?>(),
        [typeof(Action<Exception, object>)] = static () => (Action<Exception, object>)(static (_, _) => { }),
    };

    private static object? Make(Type type)
    {
        type = type.IsByRef ? type.GetElementType()! : Nullable.GetUnderlyingType(type) ?? type;
        return type switch
        {
            _ when type == typeof(string) => "X-" + Probe,
            _ when type == typeof(object) => Probe,
            _ when type == typeof(int) => 1,
            _ when type == typeof(long) => 1L,
            _ when type == typeof(bool) => true,
            _ when type == typeof(Type) => typeof(IHttpRequestFeature),
            _ when type == typeof(StringValues) => new StringValues(Probe),
            _ when type == typeof(byte[]) => Encoding.ASCII.GetBytes(Probe),
            _ when type == typeof(Memory<byte>) => new Memory<byte>(new byte[64]),
            _ when type == typeof(ReadOnlyMemory<byte>) => new ReadOnlyMemory<byte>(Encoding.ASCII.GetBytes(Probe)),
            _ when type == typeof(KeyValuePair<string, StringValues>) => new KeyValuePair<string, StringValues>("X-" + Probe, Probe),
            _ when type == typeof(KeyValuePair<string, StringValues>[]) => new KeyValuePair<string, StringValues>[64],
            _ when type == typeof(PathString) => new PathString("/" + Probe),
            _ when type == typeof(QueryString) => new QueryString("?" + Probe),
            _ when type == typeof(HostString) => new HostString(Probe),
            _ when type == typeof(IPAddress) => IPAddress.Parse("6.6.6.6"),
            _ when type == typeof(Stream) => new MemoryStream(),
            _ when type == typeof(IHeaderDictionary) => new HeaderDictionary { ["X-" + Probe] = Probe },
            _ when type == typeof(RouteValueDictionary) => new RouteValueDictionary(),
            _ when type == typeof(ClaimsPrincipal) => new ClaimsPrincipal(),
            _ when type == typeof(IHttpRequestFeature) => new HttpRequestFeature { Path = "/" + Probe },
            _ when type == typeof(Func<object, Task>) => (Func<object, Task>)(static _ => throw new InvalidTimeZoneException(Probe + ": a callback of a request that is over")),
            _ when type == typeof(Func<Task>) => (Func<Task>)(static () => throw new InvalidTimeZoneException(Probe + ": a callback of a request that is over")),
            _ when type.IsValueType => RuntimeHelpers.GetUninitializedObject(type),
            _ => s_made.TryGetValue(type, out Func<object?>? made) ? made() : throw new MissingArgumentException(type),
        };
    }

    // ---- what comes back ----

    private static string Shown(object? value) => value switch
    {
        null => "",
        string text => text,
        StringValues values => values.ToString(),
        ReadResult read => Encoding.Latin1.GetString(read.Buffer.ToArray()),
        ReadOnlySequence<byte> bytes => Encoding.Latin1.GetString(bytes.ToArray()),
        Memory<byte> memory => Encoding.Latin1.GetString(memory.Span),
        byte[] bytes => Encoding.Latin1.GetString(bytes),
        Task task => Ended(task),
        ValueTask task => Ended(task.AsTask()),
        ValueTask<int> task => Ended(task.AsTask()),
        ValueTask<ReadResult> task => Ended(task.AsTask()),
        ValueTask<FlushResult> task => Ended(task.AsTask()),
        IDictionary<string, StringValues> or IDictionary<object, object?> or IReadOnlyDictionary<string, string> => All((IEnumerable)value),
        _ => value.ToString() ?? "",
    };

    private static string All(IEnumerable values)
    {
        var text = new StringBuilder();
        foreach (object? each in values)
        {
            _ = text.Append(each).Append('\n');
        }

        return text.ToString();
    }

    private static string Ended(Task task)
    {
        if (!task.ContinueWith(static _ => { }, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default).Wait(10_000))
        {
            throw new TimeoutException("a call for a request that is over did not end");
        }

        task.GetAwaiter().GetResult();
        return Shown(task.GetType().GetProperty("Result")?.GetValue(task));
    }
}
