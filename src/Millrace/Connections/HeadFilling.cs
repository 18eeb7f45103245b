// What a request's head says, from what each protocol's reader has found in it.

using Millrace.Exchanges;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Http1;
using Millrace.Protocols.Text;

namespace Millrace.Connections;

internal static class HeadFilling
{
    /// <param name="head">The head to fill.</param>
    /// <param name="cgi">What the variables mean.</param>
    /// <param name="source">Where they are, from <paramref name="origin"/> on.</param>
    /// <param name="origin">Where they begin.</param>
    /// <param name="length">How many bytes they are.</param>
    /// <param name="target">REQUEST_URI, or what has been rebuilt behind them.</param>
    public static void Fill(this RequestHead head, CgiHead cgi, byte[] source, int origin, int length, Slice target)
    {
        head.Buffer = source;
        head.Origin = origin;
        head.Length = length;
        head.IsFastCgi = true;
        head.Method = cgi.Method;
        head.Target = target;
        ReadOnlySpan<byte> text = head[target];
        TargetPath.Split(text, out Slice path, out Slice query);
        head.Path = new Slice(target.Start + Math.Max(path.Start, 0), path.Length);
        head.Query = query.IsPresent ? new Slice(target.Start + query.Start, query.Length) : default;
        head.Protocol = cgi.Protocol;
        head.Host = cgi.Host;
        head.HasHostInTargetOnly = cgi.HasHostInTargetOnly;
        head.ServerName = cgi.ServerName;
        head.ServerPort = cgi.ServerPort;
        head.ServerAddress = cgi.ServerAddress;
        head.RemoteAddress = cgi.RemoteAddress;
        head.RemotePort = cgi.RemotePort;
        head.ContentType = cgi.ContentType;
        head.ContentLength = cgi.ContentLength;
        head.IsHttps = cgi.IsHttps;
        head.Parameters = new Slice(0, length);
        head.SetFields(cgi.Headers);
    }

    /// <param name="head">The head to fill.</param>
    /// <param name="reader">What has been read.</param>
    /// <param name="source">Where it is, from <paramref name="origin"/> on.</param>
    /// <param name="origin">Where it begins.</param>
    /// <param name="length">How many bytes it is.</param>
    public static void Fill(this RequestHead head, Http1Head reader, byte[] source, int origin, int length)
    {
        head.Buffer = source;
        head.Origin = origin;
        head.Length = length;
        head.Method = SliceOf(reader.Method);
        head.Target = SliceOf(reader.Target);
        head.Path = SliceOf(reader.Path);
        head.Query = SliceOf(reader.Query);
        head.Protocol = new Slice(reader.Target.End + 1, "HTTP/1.1".Length);
        head.Host = SliceOf(reader.Authority);
        head.ContentLength = reader.ContentLength;
        ReadOnlySpan<HeaderField> fields = reader.Headers;
        Span<HeaderSlice> slices = head.ReserveFields(fields.Length);
        for (int i = 0; i < fields.Length; i++)
        {
            ref readonly HeaderField field = ref fields[i];
            slices[i] = new HeaderSlice(field.NameStart, field.NameLength, field.ValueStart, field.ValueLength);
        }

        // RFC 9112 §3.2.2: the authority of an absolute target stands in for whatever Host says, and for a Host that HTTP/1.0 does not need.
        head.HasHostInTargetOnly = reader.HostIndex < 0 && reader.Authority.Length > 0;
        if (reader.Form == TargetForm.Absolute && reader.HostIndex >= 0)
        {
            ref HeaderSlice host = ref slices[reader.HostIndex];
            host = new HeaderSlice(host.NameStart, host.NameLength, reader.Authority.Start, reader.Authority.Length);
        }
    }

    private static Slice SliceOf(ByteRange range) => range.Length == 0 ? default : new Slice(range.Start, range.Length);
}
