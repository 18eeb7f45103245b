// Three applications that use sessions as many do: values of a visitor (the sample of ASP.NET Core's documentation), TempData that is kept in the session (MVC), and a shopping cart. None
// of them knows whose sessions they are.

using System.Text.Encodings.Web;
using System.Text.Json;
using Microsoft.AspNetCore.Http.HttpResults;
using Microsoft.AspNetCore.Mvc;

namespace Millrace.Browser.Sessions;

internal static class SessionApps
{
    private static readonly Dictionary<string, int> s_prices = new() { ["flour"] = 3, ["bran"] = 1, ["millstone"] = 900 };

    public static void AddServices(IServiceCollection services) => services.AddControllersWithViews().AddSessionStateTempDataProvider();

    public static void Map(WebApplication web)
    {
        MapVisitor(web.MapGroup("/visitor"));
        MapCart(web.MapGroup("/cart"));
        web.MapControllers();
    }

    public static ContentHttpResult Page(string body) => TypedResults.Text($"<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>mill</title>{body}", "text/html");

    // ---- values of a visitor ----

    private static void MapVisitor(RouteGroupBuilder routes)
    {
        routes.MapGet("/", static (HttpContext context) =>
        {
            ISession session = context.Session;
            if (string.IsNullOrEmpty(session.GetString("_Name")))
            {
                session.SetString("_Name", "The Miller");
                session.SetInt32("_Age", 73);
            }
            if (session.Get<DateTime[]>("_Visits") is not { } visits)
            {
                visits = [];
            }
            session.Set("_Visits", (DateTime[])[.. visits, DateTime.UnixEpoch]);
            return Page($"<p id=said>{session.GetString("_Name")} is {session.GetInt32("_Age")}, visit {visits.Length + 1}</p>");
        });
        routes.MapGet("/older", static async (HttpContext context) =>
        {
            await context.Session.LoadAsync();
            context.Session.SetInt32("_Age", (context.Session.GetInt32("_Age") ?? 0) + 1);
            return Results.Redirect("/visitor/");
        });
        routes.MapGet("/forget", static (HttpContext context) =>
        {
            context.Session.Clear();
            return Page($"<p id=said>{string.Join(',', context.Session.Keys)} is left</p>");
        });
    }

    // ---- a cart ----

    private static void MapCart(RouteGroupBuilder routes)
    {
        routes.MapGet("/", static (HttpContext context) => Page(
            $"<p id=said>{Describe(context.Session)}</p>"
            + string.Concat(s_prices.Keys.Select(static product => $"<form method=post action=/cart/add><input type=hidden name=product value={product}><button id={product}>{product}</button></form>"))
            + "<form method=post action=/cart/sign-in><input id=user name=user><button id=sign-in>sign in</button></form><form method=post action=/cart/buy><button id=buy>buy</button></form>"));
        routes.MapPost("/add", static (HttpContext context, [FromForm] string product) =>
        {
            Dictionary<string, int> cart = context.Session.Get<Dictionary<string, int>>("cart") ?? [];
            cart[product] = cart.GetValueOrDefault(product) + 1;
            context.Session.Set("cart", cart);
            return Results.Redirect("/cart/");
        }).DisableAntiforgery();
        routes.MapPost("/sign-in", static (HttpContext context, [FromForm] string user) =>
        {
            context.Session.SetString("user", user);
            return Results.Redirect("/cart/");
        }).DisableAntiforgery();
        routes.MapPost("/buy", static (HttpContext context) =>
        {
            string bought = Describe(context.Session);
            context.Session.Remove("cart");
            return Page($"<p id=said>bought: {bought}</p>");
        }).DisableAntiforgery();
    }

    private static string Describe(ISession session)
    {
        Dictionary<string, int> cart = session.Get<Dictionary<string, int>>("cart") ?? [];
        string user = HtmlEncoder.Default.Encode(session.GetString("user") ?? "nobody");
        return $"{user} has {string.Join(", ", cart.OrderBy(static item => item.Key, StringComparer.Ordinal).Select(static item => $"{item.Value} {item.Key}"))} for {cart.Sum(static item => item.Value * s_prices[item.Key])}";
    }

    // As the documentation has it.
    private static void Set<T>(this ISession session, string key, T value) => session.SetString(key, JsonSerializer.Serialize(value));

    private static T? Get<T>(this ISession session, string key) => session.GetString(key) is { } text ? JsonSerializer.Deserialize<T>(text) : default;
}

/// <summary>What one page says and another shows, once.</summary>
[Route("guestbook")]
public sealed class GuestbookController : Controller
{
    [TempData]
    public string? Thanks { get; set; }

    [HttpGet("")]
    public IResult Show() => SessionApps.Page(
        $"<p id=said>{Thanks ?? "nothing new"}, {TempData.Peek("count") ?? 0} in all</p><form method=post action=/guestbook><input id=entry name=entry><button id=write>write</button></form>");

    [HttpPost("")]
    public IActionResult Write([FromForm] string entry)
    {
        Thanks = $"thanks for {entry.Length} letters";
        TempData["count"] = (TempData["count"] as int? ?? 0) + 1;
        return RedirectToAction(nameof(Show));
    }
}
