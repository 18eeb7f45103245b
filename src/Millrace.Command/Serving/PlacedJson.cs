// JSON in which every value knows where it stands, so that a mistake can be shown. Comments and a comma behind the last element are
// allowed, as in the settings of an application. What the values mean is ServeFileReader's part.

using System.Text;
using System.Text.Json;

namespace Millrace.Command.Serving;

/// <summary>Where something stands in a file, both counted from 1; a column is a character.</summary>
internal readonly record struct Place(int Line, int Column);

/// <param name="Kind">What it is.</param>
/// <param name="Place">Its first character.</param>
/// <param name="Text">That of a string, unescaped; of a number as it is written.</param>
/// <param name="Members">Those of an object, in their order, repeated ones included.</param>
/// <param name="Items">Those of an array.</param>
internal sealed record PlacedValue(JsonValueKind Kind, Place Place, string Text, IReadOnlyList<PlacedMember> Members, IReadOnlyList<PlacedValue> Items)
{
    /// <summary>For a sentence: "a string", "a list".</summary>
    public string KindText => Kind switch
    {
        JsonValueKind.Object => "an object",
        JsonValueKind.Array => "a list",
        JsonValueKind.String => "a string",
        JsonValueKind.Number => "a number",
        JsonValueKind.Null => "null",
        _ => "true or false",
    };
}

internal sealed record PlacedMember(string Name, Place Place, PlacedValue Value);

/// <summary>The text is no JSON.</summary>
internal sealed class PlacedJsonException(Place place, string sentence) : Exception(sentence)
{
    public Place Place { get; } = place;
}

internal static class PlacedJson
{
    private static ReadOnlySpan<byte> ByteOrderMark => "\uFEFF"u8;

    /// <exception cref="PlacedJsonException">It is no JSON, or has more than one value.</exception>
    public static PlacedValue Parse(ReadOnlySpan<byte> file)
    {
        int start = file.StartsWith(ByteOrderMark) ? ByteOrderMark.Length : 0;
        ReadOnlySpan<byte> json = file[start..];
        var reader = new Utf8JsonReader(json, new JsonReaderOptions { CommentHandling = JsonCommentHandling.Skip, AllowTrailingCommas = true });
        try
        {
            reader.Read();
            var places = new Places(json);
            PlacedValue value = ReadValue(ref reader, ref places);
            reader.Read();
            return value;
        }
        catch (JsonException error)
        {
            int line = (int)(error.LineNumber ?? 0);
            throw new PlacedJsonException(new Place(line + 1, ColumnOf(json, line, (int)(error.BytePositionInLine ?? 0))), Shorten(error.Message));
        }
        catch (InvalidOperationException)
        {
            throw new PlacedJsonException(new Places(json).At((int)reader.TokenStartIndex), "A string holds what is no text (half of a surrogate pair).");
        }
    }

    private static PlacedValue ReadValue(ref Utf8JsonReader reader, ref Places places)
    {
        Place place = places.At((int)reader.TokenStartIndex);
        switch (reader.TokenType)
        {
            case JsonTokenType.StartObject:
                List<PlacedMember> members = [];
                while (reader.Read() && reader.TokenType != JsonTokenType.EndObject)
                {
                    Place namePlace = places.At((int)reader.TokenStartIndex);
                    string name = reader.GetString()!;
                    reader.Read();
                    members.Add(new PlacedMember(name, namePlace, ReadValue(ref reader, ref places)));
                }
                return new PlacedValue(JsonValueKind.Object, place, "", members, []);
            case JsonTokenType.StartArray:
                List<PlacedValue> items = [];
                while (reader.Read() && reader.TokenType != JsonTokenType.EndArray)
                {
                    items.Add(ReadValue(ref reader, ref places));
                }
                return new PlacedValue(JsonValueKind.Array, place, "", [], items);
            case JsonTokenType.String:
                return new PlacedValue(JsonValueKind.String, place, reader.GetString()!, [], []);
            case JsonTokenType.Number:
                return new PlacedValue(JsonValueKind.Number, place, Encoding.ASCII.GetString(reader.ValueSpan), [], []);
            default:
                var kind = reader.TokenType switch { JsonTokenType.True => JsonValueKind.True, JsonTokenType.False => JsonValueKind.False, _ => JsonValueKind.Null };
                return new PlacedValue(kind, place, "", [], []);
        }
    }

    // Asked for from the front to the back, so that each byte is counted once.
    private ref struct Places(ReadOnlySpan<byte> json)
    {
        private readonly ReadOnlySpan<byte> _json = json;
        private int _offset;
        private int _line = 1;
        private int _column = 1;

        /// <param name="offset">Where a value begins, not before that of the call before.</param>
        public Place At(int offset)
        {
            ReadOnlySpan<byte> passed = _json[_offset..offset];
            if (passed.LastIndexOf((byte)'\n') is >= 0 and var end)
            {
                _line += passed.Count((byte)'\n');
                _column = 1;
                passed = passed[(end + 1)..];
            }
            _column += Encoding.UTF8.GetCharCount(passed);
            _offset = offset;
            return new Place(_line, _column);
        }
    }

    private static int ColumnOf(ReadOnlySpan<byte> json, int line, int bytes)
    {
        int begin = 0;
        for (int i = 0; i < line; i++)
        {
            begin += json[begin..].IndexOf((byte)'\n') + 1;
        }
        return Encoding.UTF8.GetCharCount(json.Slice(begin, Math.Min(bytes, json.Length - begin))) + 1;
    }

    // The place is said by ours, and the path is none that a reader knows.
    private static string Shorten(string message)
    {
        int end = message.IndexOf(" Path: ", StringComparison.Ordinal);
        end = end < 0 ? message.IndexOf(" LineNumber: ", StringComparison.Ordinal) : end;
        return end < 0 ? message : message[..end];
    }
}
