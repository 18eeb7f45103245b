// Everything that an application can reach from one request and keep: found by walking from the request through whatever its
// members answer, so that a new feature or member is among it by itself.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;

namespace Millrace.Tests.Kept;

internal sealed class KeptObjects
{
    private static readonly string[] s_walked =
    [
        typeof(MillraceServer).Assembly.GetName().Name!, typeof(HttpContext).Assembly.GetName().Name!, typeof(DefaultHttpContext).Assembly.GetName().Name!,
        typeof(PipeReader).Assembly.GetName().Name!,
    ];

    private readonly HashSet<object> _seen = new(ReferenceEqualityComparer.Instance);

    /// <summary>Who sent the request.</summary>
    public required string Mark { get; init; }

    public List<KeptMember> Members { get; } = [];

    public List<CancellationToken> Tokens { get; } = [];

    /// <summary>Those that tell of the connection, and not of the request.</summary>
    public List<CancellationToken> ConnectionTokens { get; } = [];

    /// <summary>Names of the classes that were found.</summary>
    public IEnumerable<string> Classes => _seen.Select(static each => each.GetType().Name).Distinct();

    /// <summary>Walks while the request is running.</summary>
    public static KeptObjects Of(string mark, params object[] roots)
    {
        var kept = new KeptObjects { Mark = mark };
        kept.Add(roots);
        return kept;
    }

    /// <summary>What came later in the same request.</summary>
    public void Add(params object[] roots)
    {
        var waiting = new Queue<object>(roots);
        while (waiting.TryDequeue(out object? next))
        {
            Take(next, waiting);
        }
    }

    private void Take(object one, Queue<object> waiting)
    {
        if (one is CancellationToken ofRequest)
        {
            Tokens.Add(ofRequest);
            return;
        }

        if (!IsWalked(one) || !_seen.Add(one))
        {
            return;
        }

        foreach (KeptMember member in KeptMember.Of(one))
        {
            Members.Add(member);
            if (!member.IsGetter)
            {
                continue;
            }

            try
            {
                object? found = member.Call();
                if (found is CancellationToken token && member.IsOfConnection)
                {
                    ConnectionTokens.Add(token);
                }
                else if (found is not null)
                {
                    waiting.Enqueue(found);
                }
            }
            catch (Exception error) when (error is InvalidOperationException or NotSupportedException or KeyNotFoundException or InvalidDataException)
            {
                // not in this request: a session, a form, the length of a stream
            }
        }

        if (one is IEnumerable<KeyValuePair<Type, object>> features)
        {
            foreach ((_, object feature) in features.ToArray())
            {
                waiting.Enqueue(feature);
            }
        }
    }

    // The classes of the server and of the framework that belong to a request; values that cannot change need no keeping.
    private static bool IsWalked(object one) =>
        one is not string && !one.GetType().IsEnum && (one is Request or Response || !one.GetType().IsValueType)
        && (s_walked.Contains(one.GetType().Assembly.GetName().Name) || one is System.Collections.IEnumerator or Stream)
        && one is not Delegate and not Endpoint and not IServiceProvider;
}
