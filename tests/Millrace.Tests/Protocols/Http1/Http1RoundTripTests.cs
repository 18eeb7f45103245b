// What is written by the grammar the readers read: any fields, any chunks, any trailers, in any pieces.

using System.Text;
using Millrace.Protocols.Http1;
using Millrace.Tests.Protocols.Fuzz;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1RoundTripTests
{
    [Fact]
    public void Written_messages_are_read_back_from_any_pieces_RFC9112_5_and_7_1() => FuzzRun.Short(static seed => new WrittenMessages(seed));

    [Fact]
    [Trait("Category", FuzzRun.Category)]
    public void Written_messages_are_read_back_in_the_long_run() => FuzzRun.Long(static seed => new WrittenMessages(seed));

    private sealed class WrittenMessages(int seed) : FuzzTarget
    {
        private const string NameChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        private const string ValueChars = " \t!\"#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[\\]^_`abcxyz{|}~";

        private readonly Random _random = new(seed);
        private readonly MessageReading _reader = new();
        private readonly List<byte> _output = [];
        private readonly List<string> _expected = [];

        public override byte[] Next(int index)
        {
            _expected.Clear();
            _output.Clear();
            Write("POST /x HTTP/1.1\r\nHost: a\r\n");
            _expected.Add("header Host: a");
            WriteFields("x", "header", _random.Next(12));
            bool chunked = _random.Next(3) != 0;
            if (chunked)
            {
                Write("Transfer-Encoding: chunked\r\n");
                _expected.Add("header Transfer-Encoding: chunked");
            }

            Write("\r\n");
            if (chunked)
            {
                WriteChunks();
            }

            _expected.Add("rest 0");
            return [.. _output];
        }

        private void WriteFields(string prefix, string kind, int count)
        {
            for (; count > 0; count--)
            {
                string name = prefix + Text(NameChars, 70);
                string value = Text(ValueChars, _random.Next(20) == 0 ? 900 : 90);
                Write($"{name}: {value}\r\n");
                _expected.Add($"{kind} {name}: {EscapedBytes.Format(Encoding.ASCII.GetBytes(value.Trim(' ', '\t')))}");
            }
        }

        private void WriteChunks()
        {
            var body = new List<byte>();
            for (int n = _random.Next(5); n > 0; n--)
            {
                byte[] piece = new byte[_random.Next(1, _random.Next(4) == 0 ? 3_000 : 40)];
                _random.NextBytes(piece);
                body.AddRange(piece);
                Write($"{piece.Length:x}\r\n");
                _output.AddRange(piece);
                Write("\r\n");
            }

            Write("0\r\n");
            _expected.Add("body " + EscapedBytes.Format([.. body]));
            int trailers = _random.Next(3);
            WriteFields("y", "trailer", trailers);
            _expected.Add("trailers " + trailers.ToString(System.Globalization.CultureInfo.InvariantCulture));
            Write("\r\n");
        }

        public override bool Judge(byte[] bytes)
        {
            List<int> cuts = [.. Enumerable.Range(0, _random.Next(5)).Select(_ => _random.Next(bytes.Length + 1)).Order()];
            Reading reading = _reader.Read(bytes, new Http1Limits(), cuts);
            Assert.Equal("done", reading.Verdict);
            Assert.Equal(_expected, reading.Facts.SkipWhile(static fact => !fact.StartsWith("header ", StringComparison.Ordinal)));
            return true;
        }

        private void Write(string text) => _output.AddRange(Encoding.ASCII.GetBytes(text));

        private string Text(string chars, int lengthMax) => string.Concat(Enumerable.Range(0, _random.Next(lengthMax)).Select(_ => chars[_random.Next(chars.Length)]));
    }
}
