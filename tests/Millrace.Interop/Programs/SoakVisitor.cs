// A visitor of the soak: asks for one script after the other, knows what each may answer, and has whatever else it is told be accounted for.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Millrace.Interop.Programs;

internal sealed class SoakVisitor(HttpClient client, Uri site, SoakAccounts accounts, int seed)
{
    private static int s_lastId;

    private readonly Random _random = new(seed);

    public async Task StepAsync()
    {
        int kind = _random.Next(200);
        bool isSafe = _random.Next(2) == 0;
        await (kind switch
        {
            < 4 => EndsBadlyAsync("crash", isSafe),
            < 6 => EndsBadlyAsync("midway", isSafe),
            < 8 => EndsBadlyAsync("broken", isSafe),
            < 9 => EndsBadlyAsync("hang", isSafe),
            < 11 => EndsBadlyAsync("leak", isSafe),
            < 14 => LeaveAsync(isSafe),
            < 18 => AskAsync("flood", isSafe, ""),
            < 40 => AskAsync("slow", isSafe, null),
            < 50 => HeadAsync(),
            _ when isSafe => AskAsync("ok", isSafe, ""),
            _ => PostAsync(),
        });
    }

    /// <summary>Never used again; its first letter says whether the request may be sent twice.</summary>
    public static string NewId(bool isSafe) => (isSafe ? "s" : "u") + Interlocked.Increment(ref s_lastId).ToString(CultureInfo.InvariantCulture);

    private Task AskAsync(string script, bool isSafe, string? rest)
    {
        string id = NewId(isSafe);
        string expected = rest is null ? new StringBuilder().Insert(0, $"{id} ", 4_000).ToString() : $"ok {id} {rest}";
        return SendAsync(isSafe ? HttpMethod.Get : HttpMethod.Put, script, id, null, text => text == expected);
    }

    private Task PostAsync()
    {
        string id = NewId(isSafe: false);
        byte[] body = new byte[_random.Next(4) == 0 ? _random.Next(300_000) : _random.Next(1_000)];
        _random.NextBytes(body);
        string hash = Convert.ToHexStringLower(SHA256.HashData(body));
        return SendAsync(HttpMethod.Post, "ok", id, body, text => text == $"ok {id} {hash}");
    }

    private Task HeadAsync() => SendAsync(HttpMethod.Head, "ok", NewId(isSafe: true), null, static text => text.Length == 0);

    private Task EndsBadlyAsync(string script, bool isSafe) =>
        SendAsync(isSafe ? HttpMethod.Get : HttpMethod.Post, script, NewId(isSafe), null, static _ => false);

    private async Task LeaveAsync(bool isSafe)
    {
        string id = NewId(isSafe);
        using var leaving = new CancellationTokenSource(_random.Next(200));
        try
        {
            using var request = new HttpRequestMessage(isSafe ? HttpMethod.Get : HttpMethod.Post, new Uri(site, $"slow.php/{id}"));
            using HttpResponseMessage response = await client.SendAsync(request, leaving.Token);
        }
        catch (Exception error) when (error is OperationCanceledException or HttpRequestException)
        {
            // That is what was meant.
        }

        accounts.Left(id);
    }

    private async Task SendAsync(HttpMethod method, string script, string id, byte[]? body, Func<string, bool> isRight)
    {
        using var request = new HttpRequestMessage(method, new Uri(site, $"{script}.php/{id}"));
        request.Content = body is null ? null : new ByteArrayContent(body);
        try
        {
            using HttpResponseMessage response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
            int status = (int)response.StatusCode;
            string text = await response.Content.ReadAsStringAsync();
            if (status >= 500)
            {
                accounts.Failed(id, script, status);
            }
            else if (status == 200 && (isRight(text) || text == $"hostile {id}"))
            {
                accounts.Answered(script);
            }
            else
            {
                accounts.Wrong($"{method} {script} {id}: {status} {text[..Math.Min(100, text.Length)]}");
            }
        }
        catch (Exception error) when (error is HttpRequestException or IOException)
        {
            accounts.Failed(id, script, SoakAccounts.BrokenOff);
        }
    }
}
