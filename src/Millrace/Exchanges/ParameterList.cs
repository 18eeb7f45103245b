// All FastCGI parameters of a request by name, made when somebody asks.

using System.Collections.ObjectModel;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Exchanges;

internal static class ParameterList
{
    private delegate string Decoder(ReadOnlySpan<byte> bytes);

    /// <summary>The last value of each name; empty for a request that came by HTTP.</summary>
    public static IReadOnlyDictionary<string, string> Read(RequestHead head) => Read(head, StringTable.Decode);

    /// <summary>The same as it came: each character is a byte (ISO 8859-1).</summary>
    public static IReadOnlyDictionary<string, string> ReadBytes(RequestHead head) => Read(head, Encoding.Latin1.GetString);

    private static IReadOnlyDictionary<string, string> Read(RequestHead head, Decoder decode)
    {
        if (!head.IsFastCgi)
        {
            return ReadOnlyDictionary<string, string>.Empty;
        }

        var parameters = new Dictionary<string, string>(StringComparer.Ordinal);
        ReadOnlySpan<byte> stream = head[head.Parameters];
        int at = 0;
        while (at < stream.Length && NameValuePairs.Read(stream, at, out PairRange pair, out at, out _) == ReadResult.Done)
        {
            parameters[decode(pair.NameIn(stream))] = decode(pair.ValueIn(stream));
        }

        return parameters;
    }
}

/// <summary>The host a request asks for.</summary>
internal static class HostName
{
    /// <summary>HTTP_HOST or the Host field; else, behind a front server, its own name and port.</summary>
    public static string Of(RequestHead head)
    {
        if (head.Host.Length > 0)
        {
            return head.HostText;
        }

        if (!head.IsFastCgi || head.ServerName.Length == 0)
        {
            return "";
        }

        ReadOnlySpan<byte> name = head[head.ServerName];
        ReadOnlySpan<byte> port = head[head.ServerPort];
        if (!Protocols.Text.HostValue.IsValid(name) || name.SequenceEqual("_"u8))
        {
            return "";
        }

        bool isDefault = port.Length == 0 || port.SequenceEqual(head.IsHttps ? "443"u8 : "80"u8);
        bool hasPort = name.LastIndexOf((byte)':') > name.LastIndexOf((byte)']') && name.Count((byte)':') == 1;
        string text = StringTable.ForThisThread.Get(name);
        return isDefault || hasPort ? text : $"{text}:{StringTable.ForThisThread.Get(port)}";
    }
}
