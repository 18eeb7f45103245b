// WordPress, as Debian packages it, below /blog of a site of ASP.NET Core. Its PHP runs in processes that this application starts, or in a php-fpm that runs already. The site chooses no server:
// `millrace run samples/WordPress` has it on Millrace, `dotnet run` on Kestrel. README.md says what has to be installed.

using Microsoft.AspNetCore.Mvc;
using Millrace.Connector;
using Millrace.Workers;

const int UploadMax = 64 * 1024 * 1024;
const int RequestMax = UploadMax + (1024 * 1024);      // with the form around it

var builder = WebApplication.CreateBuilder(args);
string root = builder.Configuration["WordPress:Root"] ?? "/usr/share/wordpress";
string content = builder.Configuration["WordPress:Content"] ?? "/var/lib/wordpress/wp-content";
string? fpm = builder.Configuration["WordPress:Fpm"];       // such as unix:/run/php/php8.2-fpm.sock; its php.ini or pool says how large an upload may be
if (fpm is null)
{
    builder.Services.AddProcessPool("php", options =>
    {
        (options.Command, options.Min, options.Max) = ("php-cgi", 2, 4);     // WordPress asks itself now and then: one process would wait for itself
        options.AbortLimit = options.CallLimit;      // it begins its cron with a request that it does not wait for
        foreach (string setting in (string[])[$"upload_max_filesize={UploadMax}", $"post_max_size={RequestMax}"])
        {
            options.Arguments.Add("-d");
            options.Arguments.Add(setting);
        }
    });
}
var app = builder.Build();

app.MapGet("/", () => Results.Content("<!doctype html><title>Mill</title><h1>The mill</h1><p><a href=/blog/>Its blog</a>", "text/html"));
app.MapGet("/favicon.ico", () => Results.Redirect("/blog/wp-includes/images/w-logo-blue-white-bg.png"));

app.Map("/blog/wp-content/uploads/{**path:regex(\\.php(/|$))}", () => Results.NotFound());      // what visitors have brought is never run
MapPhp("/blog/wp-content/{**path}", content, fallback: null);
MapPhp("/blog/{**path}", root, fallback: "index.php");

app.Run();

void MapPhp(string pattern, string folder, string? fallback)
{
    IEndpointConventionBuilder php = fpm is null
        ? app.MapFastCgi(pattern, app.Services.GetRequiredKeyedService<ProcessPool>("php"), Configure)
        : app.MapFastCgi(pattern, fpm, Configure);
    php.WithMetadata(new RequestSizeLimitAttribute(RequestMax));

    // Debian's WordPress has symbolic links to other packages in its folders.
    void Configure(FastCgiProgramOptions options) => (options.Root, options.Fallback, options.FollowLinks) = (folder, fallback, true);
}
