// From the head of a request as it lies in its buffer to the variables of the responder's (RFC 3875 §4.1), bytes to bytes: what a front server has said over FastCGI goes on as it
// was said; over HTTP the variables are made of the request. Header fields are taken from the request in both cases: variables alone would lose repeated ones.

using System.Buffers.Text;
using System.Net;
using System.Text;
using Millrace.Exchanges;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal static class HeadParameters
{
    /// <summary>SERVER_SOFTWARE (RFC 3875 §4.1.17) of a request that has come over HTTP: the router is its web server, and what a script says to one is not for its client.</summary>
    private static readonly string s_software = Encoding.ASCII.GetString(RepeatedHeaders.RouterSoftware);

    private const int VariableMax = 256;
    private const int PrefixLength = 5;

    /// <summary>Whether variables are a web server's, and not a router's.</summary>
    public static bool AreOfWebServer(IReadOnlyDictionary<string, string>? parameters) => parameters is not null && parameters.GetValueOrDefault("SERVER_SOFTWARE") != s_software;

    /// <summary>Writes PARAMS and their end.</summary>
    /// <param name="writer">Where to.</param>
    /// <param name="exchange">The request.</param>
    /// <param name="host">Which it asks for, as in its field.</param>
    /// <param name="route">Where it goes.</param>
    public static void Write(RecordWriter writer, Exchange exchange, ReadOnlySpan<char> host, RelayRoute route)
    {
        RequestHead head = exchange.Head;
        writer.BeginStream(RecordType.Params);
        writer.AppendPair("REQUEST_METHOD"u8, head[head.Method]);
        if (head.IsFastCgi)
        {
            WriteGiven(writer, head[head.Parameters]);
        }
        else
        {
            WriteMade(writer, exchange, host);
        }
        writer.AppendPair("SCRIPT_NAME"u8, route.PrefixBytes);
        Text(writer, "PATH_INFO"u8, head.PathText.AsSpan(route.Prefix.Length));
        WriteFields(writer, head);
        if (route.Mark.Length > 0)
        {
            writer.AppendPair("HTTP_MILLRACE_ROUTED"u8, route.Mark);
        }
        writer.EndStream(RecordType.Params);
    }

    private static void WriteGiven(RecordWriter writer, ReadOnlySpan<byte> parameters)
    {
        for (int at = 0; at < parameters.Length && NameValuePairs.Read(parameters, at, out PairRange pair, out at, out _) == ReadResult.Done;)
        {
            ReadOnlySpan<byte> name = pair.NameIn(parameters);
            if (!name.StartsWith("HTTP_"u8) && !IsWrittenHere(name))
            {
                writer.AppendPair(name, pair.ValueIn(parameters));
            }
        }
    }

    private static bool IsWrittenHere(ReadOnlySpan<byte> name) => name.Length switch
    {
        9 => name.SequenceEqual("PATH_INFO"u8),
        11 => name.SequenceEqual("SCRIPT_NAME"u8),
        12 => name.SequenceEqual("CONTENT_TYPE"u8),
        14 => name.SequenceEqual("CONTENT_LENGTH"u8) || name.SequenceEqual("REQUEST_METHOD"u8),
        15 => name.SequenceEqual("PATH_TRANSLATED"u8),
        _ => false,
    };

    private static void WriteMade(RecordWriter writer, Exchange exchange, ReadOnlySpan<char> host)
    {
        RequestHead head = exchange.Head;
        writer.AppendPair("GATEWAY_INTERFACE"u8, "CGI/1.1"u8);
        writer.AppendPair("SERVER_SOFTWARE"u8, RepeatedHeaders.RouterSoftware);
        writer.AppendPair("REQUEST_URI"u8, head[head.Target]);
        ReadOnlySpan<byte> query = head[head.Query];
        writer.AppendPair("QUERY_STRING"u8, query.Length > 0 ? query[1..] : query);
        writer.AppendPair("SERVER_PROTOCOL"u8, head.Protocol.Length == 0 ? "HTTP/1.0"u8 : head[head.Protocol]);
        writer.AppendPair("REQUEST_SCHEME"u8, "http"u8);
        if (host.Length > 0)
        {
            Text(writer, "SERVER_NAME"u8, RelayRoute.NameOf(host));
        }
        IPEndPoint? local = exchange.Connection.LocalEndPoint;
        if (local is not null)
        {
            Text(writer, "SERVER_ADDR"u8, local.Address.ToString());
        }
        Number(writer, "SERVER_PORT"u8, local is { Port: > 0 } ? local.Port : RelayRoute.PortOf(host) ?? 80);
        if (exchange.Connection.RemoteEndPoint is { } remote)
        {
            Text(writer, "REMOTE_ADDR"u8, remote.Address.ToString());
            Number(writer, "REMOTE_PORT"u8, remote.Port);
        }
    }

    private static void WriteFields(RecordWriter writer, RequestHead head)
    {
        ReadOnlySpan<byte> type = head[head.ContentType];
        Span<byte> room = stackalloc byte[VariableMax];

        // Each line is a variable of its own, also those of one field: the application gets the lines that it would get without a router.
        foreach (ref readonly HeaderSlice field in head.Fields)
        {
            ReadOnlySpan<byte> name = head.Name(field);
            if (!head.IsFastCgi)
            {
                // X_User and X-User are one variable: whoever may not send the one must not get through with the other.
                if (name.Contains((byte)'_'))
                {
                    continue;
                }
                if (name.Length == 12 && Ascii.EqualsIgnoreCase(name, "Content-Type"u8))
                {
                    type = type.IsEmpty ? head.Value(field) : (byte[])[.. type, (byte)',', .. head.Value(field)];
                    continue;
                }
            }
            Span<byte> variable = name.Length > VariableMax - PrefixLength ? new byte[PrefixLength + name.Length] : room[..(PrefixLength + name.Length)];
            "HTTP_"u8.CopyTo(variable);
            ToVariable(name, variable[PrefixLength..]);
            if (MayGoOn(variable[PrefixLength..]))
            {
                writer.AppendPair(variable, head.Value(field));
            }
        }
        WriteOthers(writer, head, type);
    }

    private static void ToVariable(ReadOnlySpan<byte> name, Span<byte> variable)
    {
        for (int i = 0; i < name.Length; i++)
        {
            byte c = name[i];
            variable[i] = c == '-' ? (byte)'_' : c is >= (byte)'a' and <= (byte)'z' ? (byte)(c - 0x20) : c;
        }
    }

    // Expect has been answered by whoever has the client. What a responder drops of variables is not sent.
    private static bool MayGoOn(ReadOnlySpan<byte> name) => name.Length switch
    {
        6 => !name.SequenceEqual("EXPECT"u8),
        14 => !name.SequenceEqual("HTTP2_SETTINGS"u8),
        15 => !name.SequenceEqual("MILLRACE_ROUTED"u8),
        _ => true,
    } && HeaderFilter.Judge(name) != HeaderFate.Drop;

    private static void WriteOthers(RecordWriter writer, RequestHead head, ReadOnlySpan<byte> type)
    {
        if (head.HasHostInTargetOnly)
        {
            writer.AppendPair("HTTP_HOST"u8, head[head.Host]);
        }
        else if (head is { IsFastCgi: true, Host.Length: 0 } && HostName.Of(head) is { Length: > 0 } host)
        {
            Text(writer, "HTTP_HOST"u8, host);
        }
        if (type.Length > 0)
        {
            writer.AppendPair("CONTENT_TYPE"u8, type);
        }
        if (head.ContentLength >= 0)
        {
            Number(writer, "CONTENT_LENGTH"u8, head.ContentLength);
        }
    }

    private static void Number(RecordWriter writer, ReadOnlySpan<byte> name, long value)
    {
        Span<byte> digits = stackalloc byte[20];
        _ = Utf8Formatter.TryFormat(value, digits, out int count);
        writer.AppendPair(name, digits[..count]);
    }

    private static void Text(RecordWriter writer, ReadOnlySpan<byte> name, ReadOnlySpan<char> value)
    {
        Span<byte> bytes = value.Length <= 256 ? stackalloc byte[3 * 256] : new byte[Encoding.UTF8.GetByteCount(value)];
        writer.AppendPair(name, bytes[..Encoding.UTF8.GetBytes(value, bytes)]);
    }
}
