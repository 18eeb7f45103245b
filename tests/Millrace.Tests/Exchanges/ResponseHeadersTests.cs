// Response fields are checked as they are set, keep their order, and are fixed once the head has left.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;

namespace Millrace.Tests.Exchanges;

public sealed class ResponseHeadersTests
{
    [Theory]
    [InlineData("a b")]
    [InlineData("a:b")]
    [InlineData("a\r\nb")]
    [InlineData("a\0")]
    [InlineData("(a)")]
    [InlineData("\u00E9")]
    public void A_name_that_is_no_token_is_refused_RFC9110_5_1(string name) =>
        Assert.Throws<InvalidOperationException>(() => new ResponseHeaders()[name] = "x");

    [Theory]
    [InlineData("a\r\nSet-Cookie: b")]
    [InlineData("a\n")]
    [InlineData("\r")]
    [InlineData("a\0b")]
    [InlineData("a\u007F")]
    [InlineData("\u001B[31m")]
    [InlineData("caf\u00E9")]
    [InlineData("\u010D\u010A")]
    public void A_value_with_controls_or_beyond_ASCII_is_refused_RFC9110_5_5(string value)
    {
        var headers = new ResponseHeaders();
        Assert.Throws<InvalidOperationException>(() => headers["X"] = value);
        Assert.Throws<InvalidOperationException>(() => headers["X"] = new StringValues(["good", value]));
        Assert.Throws<InvalidOperationException>(() => headers.Add("X", value));
        Assert.Empty(headers);
    }

    [Theory]
    [InlineData("")]
    [InlineData("a\tb c")]
    [InlineData("~!{}\"'")]
    public void Printable_ASCII_spaces_and_tabs_are_taken_RFC9110_5_5(string value)
    {
        var headers = new ResponseHeaders { ["X"] = value };
        Assert.Equal(value, headers["x"]);
    }

    [Fact]
    public void What_comes_as_bytes_may_hold_more_than_ASCII_RFC9110_5_5()
    {
        var headers = new ResponseHeaders { ["A"] = "1" };
        headers.JoinBytes("X", "\u00C3\u00A4 \u0080\t\u00FF");
        headers.JoinBytes("a", "\u00E9");
        headers.JoinBytes("Y", "plain");
        Assert.Equal("A: 1\r\nA: \u00E9\r\nX: \u00C3\u00A4 \u0080\t\u00FF\r\nY: plain\r\n", Written(headers));
        Assert.Throws<InvalidOperationException>(() => headers["Z"] = headers["X"]);     // what an application sets has a meaning

        headers.Begin();
        headers["X"] = "1";
        Assert.Equal("X: 1\r\n", Written(headers));
    }

    [Theory]
    [InlineData("X", "a\r\nSet-Cookie: b")]
    [InlineData("X", "\u00E9\n")]
    [InlineData("X", "\u00E9\0")]
    [InlineData("X", "\u007F\u00E9")]
    [InlineData("X", "\u001B[31m\u00E9")]
    [InlineData("X", "\u010D\u010A")]       // no bytes: it would be a line end
    [InlineData("X\u00E9", "a")]
    [InlineData("X Y", "\u00E9")]
    [InlineData("Content-Length", "x")]
    [InlineData("Content-Length", "1\u00E9")]
    [InlineData("content-length", "\u00B2")]
    public void And_nothing_that_could_be_more_than_a_value(string name, string value)
    {
        var headers = new ResponseHeaders();
        Assert.Throws<InvalidOperationException>(() => headers.JoinBytes(name, value));
        Assert.Empty(headers);
        headers.Fix();
        Assert.Throws<InvalidOperationException>(() => headers.JoinBytes("X", "\u00E9"));
    }

    [Fact]
    public void Fields_keep_their_order_and_their_first_spelling()
    {
        var headers = new ResponseHeaders { ["B"] = "1", ["A"] = "2", ["C"] = "3" };
        headers["b"] = "4";
        headers.Remove("A");
        headers["A"] = "5";
        Assert.Equal([new("B", "4"), new("C", "3"), new("A", "5")], headers);
        Assert.Equal(["B", "C", "A"], headers.Keys);
    }

    [Fact]
    public void An_empty_value_takes_a_field_away()
    {
        var headers = new ResponseHeaders { ["A"] = "1" };
        headers["a"] = StringValues.Empty;
        Assert.False(headers.ContainsKey("A"));
        Assert.Empty(headers);
    }

    [Fact]
    public void A_second_Add_of_a_field_is_refused_and_Append_adds_a_value()
    {
        var headers = new ResponseHeaders { ["A"] = "1" };
        Assert.Throws<ArgumentException>(() => headers.Add("a", "2"));
        headers.Append("a", "2");
        Assert.Equal(new StringValues(["1", "2"]), headers["A"]);
    }

    [Fact]
    public void Fields_are_read_only_once_the_head_is_fixed_and_free_again_for_the_next_response()
    {
        var headers = new ResponseHeaders { ["A"] = "1" };
        headers.Fix();
        Assert.True(headers.IsReadOnly);
        Assert.Throws<InvalidOperationException>(() => headers["A"] = "2");
        Assert.Throws<InvalidOperationException>(() => headers.Remove("A"));
        Assert.Throws<InvalidOperationException>(headers.Clear);
        Assert.Equal("1", headers["A"]);
        headers.Begin();
        Assert.Empty(headers);
        headers["A"] = "2";
    }

    [Fact]
    public void Content_length_is_a_number_or_nothing()
    {
        var headers = new ResponseHeaders { ContentLength = 1_234_567_890_123 };
        Assert.Equal("1234567890123", headers["Content-Length"]);
        Assert.Throws<ArgumentOutOfRangeException>(() => headers.ContentLength = -1);
        headers.ContentLength = null;
        Assert.Empty(headers);
    }

    [Theory]
    [InlineData("+5")]
    [InlineData("-5")]
    [InlineData(" 5")]
    [InlineData("5, 5")]
    [InlineData("abc")]
    [InlineData("")]
    [InlineData("9223372036854775808")]
    public void A_content_length_that_is_no_number_of_bytes_is_refused_RFC9110_8_6(string value)
    {
        var headers = new ResponseHeaders();
        Assert.Throws<InvalidOperationException>(() => headers["content-length"] = value);
        Assert.Throws<InvalidOperationException>(() => headers["Content-Length"] = new StringValues(["5", "5"]));
        Assert.Throws<InvalidOperationException>(() => headers.Add("Content-Length", value));
        Assert.Empty(headers);
        headers["Content-Length"] = "5";
        Assert.Equal(5, headers.ContentLength);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Values_that_were_checked_are_those_that_are_sent_RFC9110_5_5(int count)
    {
        string[] values = [.. Enumerable.Repeat("good", count)];
        var headers = new ResponseHeaders { ["A"] = values };
        headers.Add("B", values);
        Array.Fill(values, "x\r\nevil: 1");
        Assert.Equal(Enumerable.Repeat("good", count * 2), headers["A"].Concat(headers["B"]));
    }

    // An array of values is given out as it is.
    [Theory]
    [InlineData("index")]
    [InlineData("enumerator")]
    [InlineData("copy")]
    public void Values_that_were_read_and_spoilt_are_not_sent_RFC9110_5_5(string way)
    {
        var headers = new ResponseHeaders { ["A"] = new StringValues(["good", "good"]) };
        var copies = new KeyValuePair<string, StringValues>[1];
        headers.CopyTo(copies, 0);
        StringValues values = way switch { "index" => headers["A"], "enumerator" => headers.Single().Value, _ => copies[0].Value };
        var output = new OutputBuffer();
        headers.Write(headers.Entries[0], output);
        values.ToArray()[1] = "x\r\nevil: 1";
        Assert.Throws<InvalidOperationException>(() => headers.Write(headers.Entries[0], output));
        Assert.Equal("A: good\r\nA: good\r\nA: good\r\n", System.Text.Encoding.ASCII.GetString(output.Bytes, output.Start, output.Length));
    }

    [Fact]
    public void Values_that_have_come_as_bytes_are_sent_as_they_are_and_not_where_they_were_spoilt()
    {
        var headers = new ResponseHeaders();
        headers.JoinBytes("A", "caf\u00E9");
        headers.JoinBytes("A", "th\u00E9");
        var output = new OutputBuffer();
        headers.Write(headers.Entries[0], output);
        Assert.Equal("A: caf\u00E9\r\nA: th\u00E9\r\n", System.Text.Encoding.Latin1.GetString(output.Bytes, output.Start, output.Length));
        headers["A"].ToArray()[0] = "\n";
        Assert.Throws<InvalidOperationException>(() => headers.Write(headers.Entries[0], output));
    }

    [Fact]
    public void Values_that_are_none_are_not_sent()
    {
        var output = new OutputBuffer();
        var headers = new ResponseHeaders { ["A"] = new StringValues(["a", null, "", "b"]) };
        output.AppendField("A", headers["A"]);
        Assert.Equal("A: a\r\nA: \r\nA: b\r\n", System.Text.Encoding.ASCII.GetString(output.Bytes, output.Start, output.Length));
    }

    [Fact]
    public void Many_fields_are_found()
    {
        var headers = new ResponseHeaders();
        for (int i = 0; i < 200; i++)
        {
            headers[$"X-{i}"] = $"{i}";
        }

        Assert.All(Enumerable.Range(0, 200), i => Assert.Equal($"{i}", headers[$"x-{i}"]));
        var copy = new KeyValuePair<string, StringValues>[201];
        headers.CopyTo(copy, 1);
        Assert.Equal("X-199", copy[200].Key);
    }

    [Fact]
    public void The_declared_length_is_what_Content_Length_says_however_it_was_set()
    {
        var headers = new ResponseHeaders { ["Content-Type"] = "text/plain" };
        Assert.Equal(-1, headers.DeclaredLength);
        headers.ContentLength = 5;
        Assert.Equal(5, headers.DeclaredLength);
        headers["content-length"] = "6";
        Assert.Equal(6, headers.DeclaredLength);
        headers.Remove("CONTENT-LENGTH");
        Assert.Equal(-1, headers.DeclaredLength);
        headers.Add("Content-Length", "7");
        Assert.Equal(7, headers.DeclaredLength);
        headers.Begin();
        Assert.Equal(-1, headers.DeclaredLength);
        headers["X-Another-Len"] = headers["X-Another-Name"] = "8";
        Assert.Equal(-1, headers.DeclaredLength);
    }

    [Fact]
    public void A_content_type_is_checked_and_sent_as_it_is_set_however_often_it_comes()
    {
        var headers = new ResponseHeaders();
        string other = new("text/html".AsSpan());
        foreach ((string name, string type) in ((string, string)[])[
            ("Content-Type", "text/plain"), ("Content-Type", "text/plain"), ("Content-Type", "text/plain"), ("content-type", "text/plain"), ("Content-Type", other),
            ("Content-Type", "text/html"), ("Content-Type", "text/html"), ("Content-Type", "text/java"), ("Content-Type", "text/plain"), ("Content-Type", new string('x', 300)), ("Content-Type", "text/plain")])
        {
            headers.Begin();
            headers[name] = type;
            Assert.Equal($"{name}: {type}\r\n", Written(headers));
            Assert.Throws<InvalidOperationException>(() => headers["Content-Type"] = type + "\r\nX: y");
            headers["Content-Type"] = new StringValues([type, "more"]);
            Assert.Equal($"{name}: {type}\r\n{name}: more\r\n", Written(headers));
        }
    }

    private static string Written(ResponseHeaders headers)
    {
        var output = new OutputBuffer();
        foreach (ref readonly KeyValuePair<string, StringValues> field in headers.Entries)
        {
            headers.Write(field, output);
        }

        return System.Text.Encoding.Latin1.GetString(output.Bytes, 0, output.End);
    }

    // The table serves one request after the other: two threads of an application that change it at once have counted wrong,
    // and what they made of it ends with their request.
    [Theory]
    [InlineData(-1)]
    [InlineData(HeaderTable.ShortMax + 1)]
    [InlineData(1)]
    public void What_threads_have_spoiled_is_gone_with_their_request(int count)
    {
        var headers = new ResponseHeaders { ["A"] = "1", ["B"] = "2" };
        Count(headers) = count;
        headers.Begin();
        Assert.Empty(headers);
        headers["C"] = "3";
        Assert.Equal([new("C", "3")], headers);
        Count(headers) = HeaderTable.ShortMax;
        Assert.Equal(1, headers.Entries.ToArray().Count(static entry => entry.Key is not null));
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_count")]
    private static extern ref int Count(HeaderTable table);
}
