// An ordinary ASP.NET Core minimal API: it chooses no server and knows nothing of the one that will carry it.
// Pages: a short text, an upload, a stream that arrives line by line, and a page that blocks its thread.

using System.Globalization;
using System.Security.Cryptography;
using Hello;

var builder = WebApplication.CreateBuilder(args);
var app = builder.Build();

app.MapGet("/", () => Results.Content(Pages.Home, Pages.Html));
app.MapGet("/hello", () => "Hello, World!");
app.MapGet("/upload", () => Results.Content(Pages.UploadForm, Pages.Html));

app.MapPost("/upload", async (HttpRequest request, CancellationToken aborted) =>
{
    if (!request.HasFormContentType)
    {
        return Results.Text("Send a form (multipart/form-data) with a file in it.\n", statusCode: StatusCodes.Status415UnsupportedMediaType);
    }
    var form = await request.ReadFormAsync(aborted);
    if (form.Files.Count == 0)
    {
        return Results.Text("The form carries no file.\n", statusCode: StatusCodes.Status400BadRequest);
    }
    var report = new List<string>();
    foreach (var file in form.Files)
    {
        await using var content = file.OpenReadStream();
        byte[] hash = await SHA256.HashDataAsync(content, aborted);
        report.Add(string.Create(CultureInfo.InvariantCulture, $"{file.FileName}: {file.Length} bytes, SHA-256 {Convert.ToHexStringLower(hash)}\n"));
    }
    return Results.Text(string.Concat(report));
});

app.MapGet("/stream", async (HttpResponse response, CancellationToken aborted) =>
{
    response.ContentType = "text/plain; charset=utf-8";
    // nginx would collect the lines otherwise.
    response.Headers["X-Accel-Buffering"] = "no";
    for (int line = 1; line <= 10; line++)
    {
        await response.WriteAsync(string.Create(CultureInfo.InvariantCulture, $"line {line} of 10\n"), aborted);
        await response.Body.FlushAsync(aborted);
        await Task.Delay(TimeSpan.FromMilliseconds(300), aborted);
    }
});

// Blocks its thread on purpose: the other pages must not feel it.
app.MapGet("/block", () =>
{
    Thread.Sleep(100);
    return "This page held its thread for 100 ms.\n";
});

app.Run();
