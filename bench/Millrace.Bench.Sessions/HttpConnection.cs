// One kept HTTP/1.1 connection, and as little as a flood needs: heads with a Content-Length or a body in one chunk, one cookie.

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Bench.Sessions;

internal sealed class HttpConnection : IDisposable
{
    private const string CookieName = ".AspNetCore.Session";

    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
    private readonly byte[] _buffer = new byte[16_384];

    public HttpConnection(string address) => _socket.Connect(IPEndPoint.Parse(address));

    public async ValueTask<(string Body, string? Cookie)> GetAsync(string path, string? cookie, string client)
    {
        string field = cookie is null ? "" : $"Cookie: {CookieName}={cookie}\r\n";
        await _socket.SendAsync(Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: bench\r\n{SessionApp.ClientField}: {client}\r\n{field}\r\n"));
        int length = 0;
        while (true)
        {
            int received = await _socket.ReceiveAsync(_buffer.AsMemory(length));
            length += received > 0 ? received : throw new IOException("The server has closed the connection.");
            string text = Encoding.Latin1.GetString(_buffer, 0, length);
            int head = text.IndexOf("\r\n\r\n", StringComparison.Ordinal);
            if (head >= 0 && Body(text, head) is { } body)
            {
                return (body, Cookie(text[..head]));
            }
        }
    }

    public void Dispose() => _socket.Dispose();

    // Null: not all of it is there.
    private static string? Body(string text, int head)
    {
        string rest = text[(head + 4)..];
        if (text.IndexOf("Transfer-Encoding: chunked", 0, head, StringComparison.OrdinalIgnoreCase) >= 0)
        {
            return rest.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal) ? rest[(rest.IndexOf('\n') + 1)..^7] : null;
        }
        int at = text.IndexOf("Content-Length: ", 0, head, StringComparison.OrdinalIgnoreCase) + "Content-Length: ".Length;
        int length = int.Parse(text.AsSpan(at, text.IndexOf('\r', at) - at), null);
        return rest.Length >= length ? rest : null;
    }

    private static string? Cookie(string head)
    {
        string begin = $"Set-Cookie: {CookieName}=";
        int at = head.IndexOf(begin, StringComparison.OrdinalIgnoreCase);
        return at < 0 ? null : head[(at + begin.Length)..].Split(';', '\r')[0];
    }
}
