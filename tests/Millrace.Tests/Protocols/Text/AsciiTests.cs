// Character classes against the grammar, byte by byte, and numbers that look like lengths.
using System.Text;
using Ascii = Millrace.Protocols.Text.Ascii;

namespace Millrace.Tests.Protocols.Text;

public sealed class AsciiTests
{
    private const string TokenPunctuation = "!#$%&'*+-.^_`|~";

    [Fact]
    public void Token_is_made_of_tchar_RFC9110_5_6_2()
    {
        foreach (int b in Enumerable.Range(0, 256))
        {
            bool expected = b < 128 && (char.IsAsciiLetterOrDigit((char)b) || TokenPunctuation.Contains((char)b));
            Assert.Equal(expected, Ascii.IsToken([(byte)b]));
            Assert.Equal(expected, Ascii.IsToken([.. "LONG-ENOUGH-FOR-A-VECTOR"u8, (byte)b]));
        }

        Assert.False(Ascii.IsToken([]));
    }

    [Fact]
    public void Field_value_has_no_CR_LF_NUL_RFC9110_5_5()
    {
        foreach (int b in Enumerable.Range(0, 256))
        {
            bool expected = b is not (0 or '\r' or '\n');
            Assert.Equal(expected, Ascii.IsFieldValue([(byte)b]));
            Assert.Equal(expected, Ascii.IsFieldValue([.. "long enough for a vector or two of them "u8, (byte)b, (byte)'x']));
        }

        Assert.True(Ascii.IsFieldValue([]));
    }

    [Fact]
    public void Target_is_made_of_visible_characters_RFC9112_3_2()
    {
        foreach (int b in Enumerable.Range(0, 256))
        {
            Assert.Equal(b is > 0x20 and < 0x7F, Ascii.IsVisible([.. "/long/enough/for/a/vector"u8, (byte)b]));
        }
    }

    [Theory]
    [InlineData("", "")]
    [InlineData(" \t ", "")]
    [InlineData("a", "a")]
    [InlineData("\t a b \t", "a b")]
    [InlineData("\n a", "\n a")]
    public void Optional_white_space_is_SP_and_HTAB_RFC9110_5_6_3(string text, string expected) =>
        Assert.Equal(expected, Encoding.ASCII.GetString(Ascii.TrimOptionalWhiteSpace(Encoding.ASCII.GetBytes(text))));

    [Theory]
    [InlineData("ON", "on", true)]
    [InlineData("oN", "on", true)]
    [InlineData("on ", "on", false)]
    [InlineData("http[//", "http{//", false)]
    [InlineData("@", "`", false)]
    [InlineData("", "", true)]
    public void Case_is_ignored_for_letters_only(string text, string lowerCase, bool expected) =>
        Assert.Equal(expected, Ascii.EqualsLowerCase(Encoding.ASCII.GetBytes(text), Encoding.ASCII.GetBytes(lowerCase)));

    [Theory]
    [InlineData("0", 0)]
    [InlineData("5", 5)]
    [InlineData("0005", 5)]
    [InlineData("4294967301", 4294967301)]
    [InlineData("9223372036854775807", long.MaxValue)]
    [InlineData("00000000000000000000000000009223372036854775807", long.MaxValue)]
    public void Content_length_is_digits_RFC9110_8_6(string text, long expected)
    {
        Assert.True(Ascii.TryParseContentLength(Encoding.ASCII.GetBytes(text), out long value));
        Assert.Equal(expected, value);
    }

    [Theory]
    [InlineData("")]
    [InlineData("+5")]
    [InlineData("-5")]
    [InlineData("-0")]
    [InlineData(" 5")]
    [InlineData("5 ")]
    [InlineData("5\t")]
    [InlineData("5,5")]
    [InlineData("5, 5")]
    [InlineData("0x5")]
    [InlineData("5_0")]
    [InlineData("5.0")]
    [InlineData("5e0")]
    [InlineData("five")]
    [InlineData("5\0")]
    [InlineData("\u0665")]
    [InlineData("9223372036854775808")]
    [InlineData("18446744073709551621")]
    [InlineData("99999999999999999999999999")]
    public void Content_length_that_is_not_digits_up_to_2_63_is_refused_RFC9110_8_6(string text)
    {
        Assert.False(Ascii.TryParseContentLength(Encoding.UTF8.GetBytes(text), out long value));
        Assert.Equal(0, value);
    }
}
