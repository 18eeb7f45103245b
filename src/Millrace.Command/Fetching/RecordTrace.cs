// Shows FastCGI records in the order they pass: '>' to the server, '<' from it. For eyes; not a format to parse.

using System.Globalization;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Command.Fetching;

/// <param name="output">Where to write, or null to show nothing.</param>
internal sealed class RecordTrace(TextWriter? output)
{
    private readonly Lock _oneLineAtATime = new();

    public void Sent(RecordType type, ushort id, int length, string? detail = null) => Write('>', type, id, length, detail);

    public void Received(RecordType type, ushort id, int length, string? detail = null) => Write('<', type, id, length, detail);

    public void SentPair(string name, string value) => Line($">   {name} = {value}");

    public void Closed() => Line("< connection closed");

    /// <summary>The name the specification gives a type (FastCGI 1.0 §8).</summary>
    public static string NameOf(RecordType type) => type switch
    {
        RecordType.BeginRequest => "BEGIN_REQUEST",
        RecordType.AbortRequest => "ABORT_REQUEST",
        RecordType.EndRequest => "END_REQUEST",
        RecordType.Params => "PARAMS",
        RecordType.Stdin => "STDIN",
        RecordType.Stdout => "STDOUT",
        RecordType.Stderr => "STDERR",
        RecordType.Data => "DATA",
        RecordType.GetValues => "GET_VALUES",
        RecordType.GetValuesResult => "GET_VALUES_RESULT",
        RecordType.UnknownType => "UNKNOWN_TYPE",
        _ => ((byte)type).ToString(CultureInfo.InvariantCulture),
    };

    /// <summary>The name the specification gives an end state (FastCGI 1.0 §5.5).</summary>
    public static string NameOf(ProtocolStatus status) => status switch
    {
        ProtocolStatus.RequestComplete => "REQUEST_COMPLETE",
        ProtocolStatus.CannotMultiplex => "CANT_MPX_CONN",
        ProtocolStatus.Overloaded => "OVERLOADED",
        ProtocolStatus.UnknownRole => "UNKNOWN_ROLE",
        _ => ((byte)status).ToString(CultureInfo.InvariantCulture),
    };

    private void Write(char direction, RecordType type, ushort id, int length, string? detail)
    {
        if (output is null)
        {
            return;
        }
        var line = new StringBuilder();
        line.Append(CultureInfo.InvariantCulture, $"{direction} {NameOf(type)} id={id} {length} bytes");
        Line((detail is null ? line : line.Append(' ').Append(detail)).ToString());
    }

    private void Line(string text)
    {
        if (output is not null)
        {
            lock (_oneLineAtATime)
            {
                output.WriteLine(text);
            }
        }
    }
}
