// samples/WordPress with the WordPress of Debian in it, in a temporary folder: its scripts beside a wp-config.php of this site, a database of its own, and PHP either in processes of the application,
// which runs on Millrace, or in a php-fpm of Debian, for an application on Kestrel. Nobody is asked outside of this machine.

using System.Text.RegularExpressions;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.Php;

public enum PhpHost
{
    /// <summary>php-cgi in a pool of the application, on Millrace.</summary>
    PoolOnMillrace,

    /// <summary>php-fpm beside the application, on Kestrel.</summary>
    FpmOnKestrel,
}

internal sealed partial class WordPressSite : IAsyncDisposable
{
    private const string Installed = "/usr/share/wordpress";

    private readonly TemporaryDirectory _folder = new("blog");
    private CommandProcess? _fpm;
    private CommandProcess? _app;

    /// <summary>Where the application is.</summary>
    public Uri Address { get; private set; } = null!;

    /// <summary>Where WordPress keeps what has been uploaded.</summary>
    public string Uploads => Path.Combine(Content, "uploads");

    /// <summary>What the application has said.</summary>
    public string Said => _app!.Output + _app.Error;

    private string Root => Path.Combine(_folder.Path, "root");

    private string Content => Path.Combine(_folder.Path, "content");

    private string Temporary => Path.Combine(_folder.Path, "tmp");

    public static async Task<WordPressSite> StartAsync(PhpHost host, MariaDb database)
    {
        var site = new WordPressSite();
        try
        {
            await database.CreateAsync(host.ToString());
            site.WriteFiles(host.ToString(), database.Socket);
            await site.StartAsync(host);
            return site;
        }
        catch
        {
            await site.DisposeAsync();
            throw;
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (CommandProcess? process in (CommandProcess?[])[_app, _fpm])
        {
            if (process is not null)
            {
                await process.DisposeAsync();
            }
        }
        _folder.Dispose();
    }

    private async Task StartAsync(PhpHost host)
    {
        string assembly = CommandProcess.AssemblyOf("samples/WordPress", "WordPress");
        string[] settings = [$"--WordPress:Root={Root}", $"--WordPress:Content={Content}"];
        if (host == PhpHost.PoolOnMillrace)
        {
            _ = Programs.Find("php-cgi", "php-cgi");
            _app = CommandProcess.MillraceWith([$"TMPDIR={Temporary}"], ["run", assembly, "--urls", "http://127.0.0.1:0", "--", .. settings]);
        }
        else
        {
            string socket = await StartFpmAsync();
            _app = CommandProcess.Start(assembly, ["--urls=http://127.0.0.1:0", .. settings, $"--WordPress:Fpm=unix:{socket}"]);
        }
        await _app.WaitForOutputAsync("Application started");
        Address = new Uri(Listening().Match(_app.Output).Groups[1].Value + "/");
    }

    private async Task<string> StartFpmAsync()
    {
        string program = Directory.EnumerateFiles("/usr/sbin", "php-fpm*").Order(StringComparer.Ordinal).LastOrDefault() ?? Programs.Find("php-fpm", "php-fpm");
        string socket = Path.Combine(_folder.Path, "fpm.sock");
        string configuration = Path.Combine(_folder.Path, "fpm.conf");
        await File.WriteAllTextAsync(configuration, $"""
            [global]
            error_log = /proc/self/fd/2
            daemonize = no
            [www]
            {(Environment.IsPrivilegedProcess ? "user = root\ngroup = root" : "")}
            listen = {socket}
            pm = static
            pm.max_children = 4
            php_admin_value[upload_max_filesize] = 64M
            php_admin_value[post_max_size] = 65M
            php_admin_value[upload_tmp_dir] = {Temporary}
            """);
        string[] asRoot = Environment.IsPrivilegedProcess ? ["-R"] : [];
        _fpm = CommandProcess.StartProgram(program, ["-F", .. asRoot, "-y", configuration]);
        await _fpm.WaitForErrorAsync("ready to handle connections");
        return socket;
    }

    // Scripts know where they are by where they really are: those that look for wp-config.php beside or above themselves are copies. Everything else is a link, as it is in Debian's own folders.
    private void WriteFiles(string database, string socket)
    {
        if (!Directory.Exists(Installed))
        {
            throw new FileNotFoundException("These tests need a real WordPress: run `apt-get install wordpress wordpress-theme-twentytwentythree`.");
        }
        foreach (string folder in (string[])[Root, Temporary, Uploads, Path.Combine(Content, "mu-plugins")])
        {
            _ = Directory.CreateDirectory(folder);
        }
        foreach (string script in Directory.EnumerateFiles(Installed, "*.php"))
        {
            File.Copy(script, Path.Combine(Root, Path.GetFileName(script)));
        }
        foreach (string file in Directory.EnumerateFiles(Path.Combine(Installed, "wp-admin"), "*", SearchOption.AllDirectories))
        {
            string copy = Path.Combine(Root, Path.GetRelativePath(Installed, file));
            _ = Directory.CreateDirectory(Path.GetDirectoryName(copy)!);
            File.Copy(file, copy);
        }
        _ = Directory.CreateSymbolicLink(Path.Combine(Root, "wp-includes"), Path.Combine(Installed, "wp-includes"));
        _ = Directory.CreateSymbolicLink(Path.Combine(Content, "themes"), Path.Combine(Installed, "wp-content/themes"));
        File.WriteAllText(Path.Combine(Root, "wp-config.php"), $"""
            <?php
            define('DB_NAME', '{database}');
            define('DB_USER', 'root');
            define('DB_PASSWORD', '');
            define('DB_HOST', 'localhost:{socket}');
            define('DB_CHARSET', 'utf8mb4');
            define('WP_CONTENT_DIR', '{Content}');
            define('WP_HTTP_BLOCK_EXTERNAL', true);
            define('AUTOMATIC_UPDATER_DISABLED', true);
            define('DISABLE_WP_CRON', true);
            $table_prefix = 'wp_';
            if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
            require_once ABSPATH . 'wp-settings.php';
            """);

        // Neither pictures of visitors from gravatar.com, nor the editor's welcome with one from w.org, nor mail to the owner.
        File.WriteAllText(Path.Combine(Content, "mu-plugins/offline.php"), """
            <?php
            add_filter('pre_option_show_avatars', '__return_zero');
            add_filter('get_user_metadata', fn($value, $user, $key) => $key == 'wp_persisted_preferences' ? [['core/edit-post' => ['welcomeGuide' => false], '_modified' => gmdate('c')]] : $value, 10, 3);
            function wp_mail() { return true; }
            """);
    }

    [GeneratedRegex(@"(http://127\.0\.0\.1:[0-9]+)")]
    private static partial Regex Listening();
}
