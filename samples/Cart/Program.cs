// A shop whose visitors have a cart in their session: in the memory of this process, or in a database that several processes of the shop share. They also share the keys of the cookies then:
//
//   dotnet run --urls "fastcgi://unix:/run/cart1.sock?mode=660&group=www-data" --Sessions:PostgreSql "Host=/run/postgresql;Database=shop" --Keys /var/lib/shop/keys

using System.Globalization;
using Microsoft.AspNetCore.DataProtection;
using Millrace.Sessions;

var builder = WebApplication.CreateBuilder(args);
builder.WebHost.UseMillrace();
builder.Services.AddMillraceSession(options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys);     // two windows of one visitor: each product as it was put in last
if (builder.Configuration["Sessions:PostgreSql"] is { Length: > 0 } database)
{
    builder.Services.AddMillraceSessionPostgreSql(database);
}
if (builder.Configuration["Keys"] is { Length: > 0 } folder)
{
    builder.Services.AddDataProtection().SetApplicationName("Cart").PersistKeysToFileSystem(new DirectoryInfo(folder));
}
var app = builder.Build();
app.UseSession();

app.MapGet("/", async (HttpContext context) => await IsThereAsync(context.Session)
    ? Results.Text(string.Concat(context.Session.Keys.Order(StringComparer.Ordinal).Select(product => $"{context.Session.GetInt32(product)} {product}\n")))
    : Away());

app.MapPost("/add/{product}", async (HttpContext context, string product) =>
{
    if (!await IsThereAsync(context.Session))
    {
        return Away();
    }
    int count = (context.Session.GetInt32(product) ?? 0) + 1;
    context.Session.SetInt32(product, count);
    return Results.Text(count.ToString(CultureInfo.InvariantCulture));
});

app.Run();

static IResult Away() => Results.Text("Your cart is not at hand. Try again in a minute.\n", statusCode: StatusCodes.Status503ServiceUnavailable);

// Asks the database without holding a thread meanwhile.
static async Task<bool> IsThereAsync(ISession session)
{
    try
    {
        await session.LoadAsync();
    }
    catch (Exception)
    {
        // It does not answer: the log says so, and IsAvailable.
    }
    return session.IsAvailable;
}
