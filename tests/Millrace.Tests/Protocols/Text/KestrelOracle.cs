// The slow oracle for hosts and paths: the functions of the Kestrel in the shared framework, called by reflection. A missing one fails the tests that ask it.
using System.Reflection;
using System.Text;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace Millrace.Tests.Protocols.Text;

internal static class KestrelOracle
{
    private const string Namespace = "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.";

    private delegate string DecodePathFunction(Span<byte> path, bool pathEncoded, string rawTarget, int queryLength);

    private static readonly Func<string, bool> HostFunction = Find("Infrastructure.HttpUtilities", "IsHostHeaderValid").CreateDelegate<Func<string, bool>>();

    private static readonly DecodePathFunction PathFunction = Find("Http.PathDecoder", "DecodePath").CreateDelegate<DecodePathFunction>();

    public static bool IsHostValid(string host) => HostFunction(host);

    /// <summary>The decoded path as UTF-8; null where the path is refused.</summary>
    public static byte[]? DecodePath(string rawPath)
    {
        try
        {
            return Encoding.UTF8.GetBytes(PathFunction(Encoding.ASCII.GetBytes(rawPath), rawPath.Contains('%'), rawPath, queryLength: 0));
        }
        catch (InvalidOperationException)
        {
            return null;
        }
    }

    private static MethodInfo Find(string type, string method) =>
        typeof(KestrelServer).Assembly.GetType(Namespace + type, throwOnError: true)!.GetMethod(method, BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic)
        ?? throw new MissingMethodException(type, method);
}
