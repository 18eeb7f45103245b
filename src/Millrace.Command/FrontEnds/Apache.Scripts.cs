// Apache in front of a pool of PHP, as in front of php-fpm: Apache finds the script, and sends the files beside it. FilesMatch looks at the name of the file that is there, so that visitors do not run
// what they have uploaded (the hole of 2010: /upload/a.jpg/x.php, where the file is a.jpg). SCRIPT_FILENAME is proxy:fcgi://..., which the pool knows.

namespace Millrace.Command.FrontEnds;

internal sealed partial class Apache
{
    private string ConfigureScripts(FrontEndSite site, ScriptFolder scripts)
    {
        string root = Quoted(scripts.Root ?? "/var/www/html");
        return $"""
            {HeadOfSeveral(site.Name, [site])}
            <VirtualHost *:80>
            {Names(site)}
            {(scripts.Root is null ? "    # where the scripts lie, as the pool sees it\n" : "")}    DocumentRoot {root}
                # as "limits.body" of the pool ({scripts.BodyMaxText})
                LimitRequestBody {site.BodyMaxDigits}

                <Directory {root}>
                    Require all granted
                    DirectoryIndex {string.Join(' ', scripts.Index.Select(Quoted))}
                    FallbackResource {Quoted("/" + scripts.Fallback.TrimStart('/'))}
                    # the Authorization header
                    CGIPassAuth On
                </Directory>

                # .git, .env
                <LocationMatch "/\.(?!well-known/)">
                    Require all denied
                </LocationMatch>

                # the file that is there, and not what the path ends in: /upload/a.jpg/x.php is a.jpg
                <FilesMatch "(?:{string.Join('|', scripts.Suffixes.Select(static suffix => "\\" + suffix))})$">
                    SetHandler "proxy:{Url(site with { PathPrefix = "" }, "fcgi")}"
                </FilesMatch>
            </VirtualHost>

            """;
    }

    private static string Quoted(string path) => path.AsSpan().ContainsAny('"', '\\', '$') || path.Any(char.IsControl)
        ? throw CannotBeTold("Apache", path, "a path without quotes, \\ and $")
        : $"\"{path}\"";
}
