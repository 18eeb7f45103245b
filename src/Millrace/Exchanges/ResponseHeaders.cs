// The header fields of a response: what an application may set, and until when.

using System.Globalization;
using System.Text;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

/// <summary>Fields of a response: checked as they are set, fixed once the head has been sent.</summary>
internal sealed class ResponseHeaders : HeaderTable
{
    private bool _fixed;
    private bool _mayHaveLength;        // a field as long as Content-Length has been set
    private bool _hasBytes;             // a value holds more than ASCII
    private string? _contentType;       // the last that was found to be good: most responses have the same string
    private TypeLine? _contentTypeLine; // the field with it, once it has come again

    // Both in one: of two threads of an application that set it at once none leaves the line of one type with the other.
    private sealed record TypeLine(string Type, byte[] Bytes);

    public override bool IsReadOnly => _fixed;

    public void Fix() => _fixed = true;

    /// <summary>What Content-Length says, -1 where there is none: for those who look several times a response.</summary>
    public long DeclaredLength => _mayHaveLength ? ContentLength ?? -1 : -1;

    public void Begin()
    {
        _fixed = _mayHaveLength = _hasBytes = false;
        Drop();
    }

    /// <summary>The request has ended, and nothing of it is used any more.</summary>
    public void End() => Renew();

    // RFC 9110 §5.1, §5.5: a name is a token; a value holds no CR, LF or NUL, nor other controls. What has been checked is kept,
    // and not an array that the application may write into later.
    protected override void BeforeWrite(string name, ref StringValues values)
    {
        if (_fixed)
        {
            throw IsFixed();
        }

        if (values.Count == 0)
        {
            return;
        }

        if (ReferenceEquals(name, HeaderNames.ContentType) && values.Count == 1 && values[0] is { } type)
        {
            CheckContentType(type);
            values = new StringValues(type);
            return;
        }

        if (!FieldText.IsName(name))
        {
            throw IsNoName(name);
        }

        values = values.Count == 1 ? new StringValues(values[0]) : new StringValues([.. values]);
        for (int i = 0; i < values.Count; i++)
        {
            if (values[i] is { } value)
            {
                CheckValue(name, value);
            }
        }

        if (name.Length == HeaderNames.ContentLength.Length)
        {
            _mayHaveLength = true;
            if (name.Equals(HeaderNames.ContentLength, StringComparison.OrdinalIgnoreCase))
            {
                CheckLength(values);
            }
        }
    }

    /// <summary>Adds a field, or a value to it, that has come as bytes and goes on as such, each a character: obs-text may be in it (RFC 9110 §5.5), which applications cannot set.</summary>
    /// <exception cref="InvalidOperationException">There is no such name, or no such value.</exception>
    public void JoinBytes(string name, string value)
    {
        if (this[name].Count == 0 && Ascii.IsValid(value))
        {
            this[name] = value;     // judges it
            return;
        }

        if (_fixed)
        {
            throw IsFixed();
        }

        if (!FieldText.IsName(name))
        {
            throw IsNoName(name);
        }

        if (!FieldText.IsByteValue(value) || name.Equals(HeaderNames.ContentLength, StringComparison.OrdinalIgnoreCase))
        {
            throw new InvalidOperationException($"The value of the response field {name} holds a control character (RFC 9110 §5.5), or is no length (§8.6).");
        }

        _hasBytes = true;
        Join(name, value);
    }

    private static InvalidOperationException IsFixed() => new("Headers are read-only: the response has already started.");

    private static InvalidOperationException IsNoName(string name) => new($"The response field name \"{FieldText.Shown(name)}\" is not a token (RFC 9110 §5.1).");

    private static InvalidOperationException IsNoValue(string name) => new($"The value of the response field {name} holds a control or non-ASCII character (RFC 9110 §5.5).");

    private void CheckContentType(string type)
    {
        if (!ReferenceEquals(type, _contentType))
        {
            CheckValue(HeaderNames.ContentType, type);
            _contentType = type.Length <= StringTable.LengthMax ? type : null;
        }
        else if (!ReferenceEquals(_contentTypeLine?.Type, type))
        {
            _contentTypeLine = new TypeLine(type, Encoding.ASCII.GetBytes($"{HeaderNames.ContentType}: {type}\r\n"));
        }
    }

    /// <summary>A field of this table as it is sent, appended to what will be.</summary>
    public void Write(in KeyValuePair<string, StringValues> field, OutputBuffer output)
    {
        if (ReferenceEquals(field.Key, HeaderNames.ContentType) && _contentTypeLine is { } line && field.Value.Count == 1 && ReferenceEquals(field.Value[0], line.Type))
        {
            output.Append(line.Bytes);
        }
        else if (field.Value.Count == 1)
        {
            output.AppendField(field.Key, field.Value, isBytes: _hasBytes);
        }
        else
        {
            WriteEach(field, output);
        }
    }

    // Several values are an array, which whoever has read them may have written into since they were judged.
    private void WriteEach(in KeyValuePair<string, StringValues> field, OutputBuffer output)
    {
        foreach (string? value in field.Value)
        {
            if (value is not null && !(_hasBytes ? FieldText.IsByteValue(value) : FieldText.IsValue(value)))
            {
                throw IsNoValue(field.Key);
            }

            output.AppendField(field.Key, new StringValues(value), isBytes: _hasBytes);
        }
    }

    private static void CheckValue(string name, string value)
    {
        if (!FieldText.IsValue(value))
        {
            throw IsNoValue(name);
        }
    }

    // RFC 9110 §8.6
    private static void CheckLength(in StringValues values)
    {
        if (values.Count > 1 || (values.Count == 1 && !long.TryParse(values[0], NumberStyles.None, CultureInfo.InvariantCulture, out _)))
        {
            throw new InvalidOperationException($"Content-Length is \"{FieldText.Shown(values.ToString())}\"; it must be one number of bytes, in digits (RFC 9110 §8.6).");
        }
    }
}
