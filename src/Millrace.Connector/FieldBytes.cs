// A field of a response as bytes, which may hold more than ASCII (RFC 9110 §5.5, obs-text): it goes on as it is where the server can have it so.

using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;

namespace Millrace.Connector;

internal static class FieldBytes
{
    /// <summary>Adds a field, or a value to it.</summary>
    /// <param name="response">Of whatever server.</param>
    /// <param name="name">Its name.</param>
    /// <param name="value">Each character a byte.</param>
    /// <returns>False: it holds more than ASCII, which the server does not write.</returns>
    /// <exception cref="InvalidOperationException">There is no such name, or no such value.</exception>
    public static bool TryJoin(HttpResponse response, string name, string value)
    {
        if (response.Headers is HeaderView its)
        {
            its.JoinBytes(name, value);
            return true;
        }
        try
        {
            response.Headers[name] = StringValues.Concat(response.Headers[name], value);
            return true;
        }
        catch (InvalidOperationException) when (!Ascii.IsValid(value))
        {
            return false;
        }
    }
}
