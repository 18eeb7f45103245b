// A page of the browser that remembers everything that went wrong in it: errors and warnings on the console, exceptions of
// scripts, requests without a whole response, responses of 400 and above.

using System.Collections.Concurrent;
using Microsoft.Playwright;

namespace Millrace.Browser.Browsers;

public sealed class Window : IAsyncDisposable
{
    private readonly IBrowserContext _context;
    private readonly ConcurrentQueue<string> _troubles = new();
    private readonly ConcurrentDictionary<string, IResponse> _responses = new();
    private int _webSockets;

    internal Window(IBrowserContext context, IPage page)
    {
        _context = context;
        Page = page;
        page.Console += (_, message) => Note(message.Type is "error" or "warning", $"console: {message.Text}");
        page.PageError += (_, error) => Note(true, $"script: {error}");
        page.RequestFailed += (_, request) => Note(true, $"failed: {request.Method} {request.Url} {request.Failure}");
        page.WebSocket += (_, _) => Interlocked.Increment(ref _webSockets);
        page.Response += (_, response) =>
        {
            _responses[new Uri(response.Url).AbsolutePath] = response;
            Note(response.Status >= 400, $"{response.Status}: {response.Request.Method} {response.Url}");
        };
    }

    public IPage Page { get; }

    /// <summary>How many WebSockets the page has opened so far.</summary>
    public int WebSockets => Volatile.Read(ref _webSockets);

    /// <summary>The last response for a path.</summary>
    public IResponse ResponseFor(string path) => _responses[path];

    public Task<string> TextOf(string selector) => Page.InnerTextAsync(selector);

    public Task WaitForText(string selector, string text) => Assertions.Expect(Page.Locator(selector)).ToHaveTextAsync(text, new() { Timeout = Chromium.PatienceMs });

    public void AssertNoTrouble() => Assert.True(_troubles.IsEmpty, string.Join('\n', _troubles));

    public ValueTask DisposeAsync() => _context.DisposeAsync();

    private void Note(bool isTrouble, string text)
    {
        if (isTrouble)
        {
            _troubles.Enqueue(text);
        }
    }
}
