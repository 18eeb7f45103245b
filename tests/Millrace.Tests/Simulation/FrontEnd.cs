// A front server's end of a connection: cuts what comes back into records and these into responses, and judges every byte
// by the specification (FastCGI 1.0 §3.3, §5.5), without using the server's own readers.

using System.Buffers.Binary;
using System.Globalization;
using System.Text;

namespace Millrace.Tests.Simulation;

/// <summary>A record that came back.</summary>
internal sealed record ReceivedRecord(byte Type, int Id, byte[] Content);

/// <summary>All that came back for one request.</summary>
internal sealed class ReceivedResponse(int id)
{
    private string? _head;

    public int Id => id;

    public MemoryStream Stdout { get; } = new();

    public MemoryStream Stderr { get; } = new();

    public bool StdoutEnded { get; set; }

    public bool StderrEnded { get; set; }

    /// <summary>END_REQUEST has come.</summary>
    public bool HasEnded { get; set; }

    public uint AppStatus { get; set; }

    public int ProtocolStatus { get; set; }

    private ReadOnlySpan<byte> Bytes => Stdout.GetBuffer().AsSpan(0, (int)Stdout.Length);

    private int _headEnd = -1;

    private int HeadEnd => _headEnd >= 0 ? _headEnd : _headEnd = Bytes.IndexOf("\r\n\r\n"u8);

    public bool HasHead => HeadEnd >= 0;

    /// <summary>Status line and fields, as sent.</summary>
    public string Head => _head ??= Encoding.Latin1.GetString(Bytes[..(HeadEnd + 2)]);

    public ReadOnlySpan<byte> Body => Bytes[(HeadEnd + 4)..];

    /// <summary>Bytes of the body already judged.</summary>
    public int Judged { get; set; }

    public string BodyText => Encoding.UTF8.GetString(Body);

    public string ErrorText => Encoding.Latin1.GetString(Stderr.ToArray());

    public int Status => Field("Status") is { } status ? int.Parse(status.AsSpan(0, 3), CultureInfo.InvariantCulture) : -1;

    public string? Field(string name) => Head.Split("\r\n").Where(line => line.StartsWith(name + ": ", StringComparison.OrdinalIgnoreCase))
        .Select(line => line[(name.Length + 2)..]).FirstOrDefault();
}

internal sealed class FrontEnd(SimulatedSocket socket) : Behaviour.IClient
{
    private readonly List<byte> _unparsed = [];
    private readonly byte[] _buffer = new byte[16 * 1024];
    private readonly Dictionary<int, ReceivedResponse> _open = [];
    private int _parsed;

    public SimulatedSocket Socket => socket;

    /// <summary>Management records, and whatever else belongs to no response.</summary>
    public List<ReceivedRecord> Management { get; } = [];

    /// <summary>Responses in the order in which they ended.</summary>
    public List<ReceivedResponse> Ended { get; } = [];

    /// <summary>Responses that have begun and not ended, by id.</summary>
    public IReadOnlyDictionary<int, ReceivedResponse> Open => _open;

    /// <summary>What broke the specification, if anything did.</summary>
    public string? Fault { get; private set; }

    public long BytesRead { get; private set; }

    /// <summary>The server has ended the connection and everything has been read.</summary>
    public bool IsAtEnd => socket.AtEnd;

    /// <summary>The server has said that the response is not whole: a head of a version that does not exist came, and nothing behind it.</summary>
    public bool IsBrokenOff { get; private set; }

    /// <summary>The stream stopped inside a record, or behind the head of one that is none.</summary>
    public bool EndsInsideRecord => _parsed < _unparsed.Count;

    /// <summary>Bytes of a record's content that have come without the rest of it.</summary>
    public int OpenContent => Math.Max(0, _unparsed.Count - _parsed - 8);

    public void Send(ReadOnlySpan<byte> bytes) => socket.ClientSend(bytes);

    /// <summary>Reads up to <paramref name="max"/> bytes; answers how many there were.</summary>
    public int Read(int max = int.MaxValue)
    {
        int total = 0;
        while (total < max)
        {
            int count = socket.ClientRead(_buffer.AsSpan(0, Math.Min(_buffer.Length, max - total)));
            if (count == 0)
            {
                break;
            }

            _unparsed.AddRange(_buffer.AsSpan(0, count));
            total += count;
            BytesRead += count;
            Parse();
        }

        return total;
    }

    private void Parse()
    {
        ReadOnlySpan<byte> bytes = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(_unparsed);
        while (Fault is null && bytes.Length - _parsed >= 8)
        {
            ReadOnlySpan<byte> head = bytes[_parsed..];
            int length = BinaryPrimitives.ReadUInt16BigEndian(head[4..]);
            if (!head[..8].ContainsAnyExcept((byte)0))
            {
                IsBrokenOff = true;
                Fault = head.Length > 8 ? "bytes behind the sign that its response is not whole" : null;
                return;
            }

            if (head[0] != 1 || head[7] != 0)
            {
                Fault = $"a record head with version {head[0]} and reserved byte {head[7]}";
                return;
            }

            if (head.Length < 8 + length + head[6])
            {
                break;
            }

            if (head.Slice(8 + length, head[6]).ContainsAnyExcept((byte)0))
            {
                Fault = "padding bytes that are not zero";
                return;
            }

            Take(head[1], BinaryPrimitives.ReadUInt16BigEndian(head[2..]), head.Slice(8, length));
            _parsed += 8 + length + head[6];
        }

        if (_parsed > 64 * 1024)
        {
            _unparsed.RemoveRange(0, _parsed);
            _parsed = 0;
        }
    }

    private void Take(byte type, int id, ReadOnlySpan<byte> content)
    {
        switch (type)
        {
            case Wire.Stdout or Wire.Stderr when id != 0:
                TakeOutput(type, Of(id), content);
                break;
            case Wire.End when id != 0:
                TakeEnd(Of(id), content);
                break;
            case Wire.GetValuesResult or Wire.UnknownType when id == 0:
                Management.Add(new ReceivedRecord(type, id, content.ToArray()));
                break;
            default:
                Fault = $"a record of type {type} with id {id}";
                break;
        }
    }

    private ReceivedResponse Of(int id)
    {
        if (!_open.TryGetValue(id, out ReceivedResponse? response))
        {
            _open[id] = response = new ReceivedResponse(id);
        }

        return response;
    }

    private void TakeOutput(byte type, ReceivedResponse response, ReadOnlySpan<byte> content)
    {
        bool isStdout = type == Wire.Stdout;
        if (isStdout ? response.StdoutEnded : response.StderrEnded)
        {
            Fault = "a stream goes on after its end";
        }

        if (content.IsEmpty)
        {
            response.StdoutEnded |= isStdout;
            response.StderrEnded |= !isStdout;
        }
        else
        {
            (isStdout ? response.Stdout : response.Stderr).Write(content);
        }
    }

    private void TakeEnd(ReceivedResponse response, ReadOnlySpan<byte> content)
    {
        if (content.Length != 8 || content[5..].ContainsAnyExcept((byte)0))
        {
            Fault = "END_REQUEST that is not 8 bytes with three zeros at the end";
            return;
        }

        if ((response.Stdout.Length > 0) != response.StdoutEnded || (response.Stderr.Length > 0) != response.StderrEnded)
        {
            Fault = "END_REQUEST before the end of its streams";
        }

        response.AppStatus = BinaryPrimitives.ReadUInt32BigEndian(content);
        response.ProtocolStatus = content[4];
        response.HasEnded = true;
        _open.Remove(response.Id);
        Ended.Add(response);
    }
}
