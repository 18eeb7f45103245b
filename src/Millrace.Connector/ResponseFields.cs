// Where the head of a response goes that a responder has sent: into the response of whatever server the request came by, or into the answer of an exchange on a
// loop of this one.

using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;

namespace Millrace.Connector;

internal interface IResponseFields
{
    /// <param name="code">From 200 to 999.</param>
    /// <param name="reason">Null: the usual one.</param>
    void SetStatus(int code, string? reason);

    long? ContentLength { get; set; }

    bool HasLocation { get; }

    /// <summary>One more value of a field.</summary>
    /// <exception cref="InvalidOperationException">There is no such name, or no such value.</exception>
    void Append(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value);
}

internal readonly struct HttpResponseFields(HttpResponse response) : IResponseFields
{
    // The names that nearly every response has are not made anew.
    private static readonly string[] s_known =
        [HeaderNames.ContentType, HeaderNames.Date, HeaderNames.Server, HeaderNames.CacheControl, HeaderNames.ETag, HeaderNames.LastModified, HeaderNames.SetCookie, HeaderNames.Location, HeaderNames.Vary];

    public long? ContentLength
    {
        get => response.ContentLength;
        set => response.ContentLength = value;
    }

    public bool HasLocation => response.Headers.ContainsKey(HeaderNames.Location);

    public void SetStatus(int code, string? reason)
    {
        response.StatusCode = code;
        if (reason is not null)
        {
            response.HttpContext.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = reason;
        }
    }

    public void Append(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        string its = NameOf(name);
        if (!FieldBytes.TryJoin(response, its, ValueOf(its, value)))
        {
            throw new InvalidOperationException($"The value of the response field {its} holds a non-ASCII character, which the server does not write.");
        }
    }

    /// <summary>A value as it came, each character a byte. Types come again and again, and are not made anew.</summary>
    public static string ValueOf(string name, ReadOnlySpan<byte> value) =>
        ReferenceEquals(name, HeaderNames.ContentType) && Ascii.IsValid(value) ? StringTable.ForThisThread.Get(value) : Encoding.Latin1.GetString(value);

    /// <summary>A name as it came, or as it is usually written.</summary>
    public static string NameOf(ReadOnlySpan<byte> name)
    {
        foreach (string known in s_known)
        {
            if (known.Length == name.Length && Ascii.EqualsIgnoreCase(name, known))
            {
                return known;
            }
        }
        return Encoding.Latin1.GetString(name);
    }
}

internal readonly struct AnswerFields(Answer answer) : IResponseFields
{
    public long? ContentLength
    {
        get => answer.Headers.ContentLength;
        set => answer.Headers.ContentLength = value;
    }

    public bool HasLocation => answer.Headers.ContainsKey(HeaderNames.Location);

    public void SetStatus(int code, string? reason)
    {
        answer.StatusCode = code;
        answer.ReasonPhrase = reason;
    }

    // What comes with every answer is a string of the thread's table; what is meant for one client alone is not kept there.
    public void Append(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        StringTable strings = StringTable.ForThisThread;
        string its = strings.GetFieldName(name, out bool isSecret);
        string text = isSecret || !Ascii.IsValid(value) || its.Equals(HeaderNames.SetCookie, StringComparison.OrdinalIgnoreCase) ? Encoding.Latin1.GetString(value) : strings.Get(value);
        answer.Headers.JoinBytes(its, text);
    }
}
