// Pools in the file of `millrace serve`: what they may say, and for each kind of mistake one sentence with its place and what to write instead.

using System.Text;
using System.Text.Json;
using Millrace.Command.Serving;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Command;

public sealed class ServePoolFileTests
{
    private const string Place = "\"urls\": \"fastcgi://unix:/run/php.sock\"";
    private const string App = "{\"name\": \"shop\", \"target\": \"t\", \"urls\": \"fastcgi://unix:/run/shop.sock\"}";

    [Fact]
    public void A_pool_with_everything_is_read()
    {
        ServeFile file = Read("""
            {
              "shared": { "front": "http://127.0.0.1:81" },
              "apps": [ { "name": "shop", "target": "t", "urls": "fastcgi://unix:/run/shop.sock" } ],
              "pools": [
                {
                  "name": "php", "command": "bin/php-cgi", "arguments": ["-d", "memory_limit=1G"], "urls": ["fastcgi://unix:/run/php.sock?mode=660", "http://127.0.0.1:5001"],
                  "on": "front", "host": "blog.example", "path": "/blog",
                  "root": "../www", "suffixes": [".php", ".phtml"], "index": ["start.php"], "fallback": "start.php", "serveFiles": false,
                  "min": 3, "max": 30, "idle": "10s", "environment": { "DB": "x" }, "workingDirectory": "w", "user": "www-data",
                  "timeouts": { "start": "2m", "drain": "1h" },
                  "limits": { "memory": "256m", "call": "60s", "wait": "10s", "queue": 5, "abort": "2m", "body": "64m", "descriptors": 4096, "processes": 200, "cpu": 1.5 },
                  "recycle": { "requests": 500, "age": "1h", "memory": "200m" },
                },
              ],
            }
            """)!;

        AppSettings app = file.Apps[1];
        PoolSettings pool = app.Pool!;
        Assert.Equal("1 application and 1 pool", file.CountText);
        Assert.Equal(("php", "www-data", "/blog", true, false, 1), (app.Name, app.User, app.PathBase, app.IsOfCommand, app.IsRouter, app.Instances));
        Assert.Equal("front:blog.example/blog", Assert.Single(app.SharedAs).ToString());
        Assert.Equal(4, app.Urls.Count);      // for what asks for a switch of protocols there is one more
        Assert.Equal((TimeSpan.FromMinutes(2), TimeSpan.FromHours(1), TimeSpan.FromMinutes(2), TimeSpan.FromHours(1)), (app.StartTimeout, app.DrainTimeout, pool.Start, pool.Drain));
        Assert.Equal(new AppLimits(null, 4096, 200, 1.5), app.Limits);
        Assert.Equal(AppRecycling.None, app.Recycling);
        Assert.Equal(("/etc/millrace/bin/php-cgi", "/etc/www", "/etc/millrace/w", "start.php", false), (pool.Command, pool.Root, pool.WorkingDirectory, pool.Fallback, pool.ServeFiles));
        Assert.Equal(["-d", "memory_limit=1G"], pool.Arguments);
        Assert.Equal([".php", ".phtml"], pool.Suffixes);
        Assert.Equal(["start.php"], pool.Index);
        Assert.Equal([new("DB", "x")], pool.Environment);
        Assert.Equal((3, 30, TimeSpan.FromSeconds(10)), (pool.Min, pool.Max, pool.Idle));
        Assert.Equal((256L << 20, TimeSpan.FromSeconds(60), TimeSpan.FromSeconds(10), 5, TimeSpan.FromMinutes(2), 64L << 20), (pool.Memory, pool.Call, pool.Wait, pool.Queue, pool.Abort, pool.Body));
        Assert.Equal(new AppRecycling(500, TimeSpan.FromHours(1), 200L << 20), pool.Recycling);
    }

    [Fact]
    public void What_is_left_out_has_its_default()
    {
        ServeFile file = Read(Pool())!;

        PoolSettings pool = Assert.Single(file.Apps).Pool!;
        Assert.Equal("1 pool", file.CountText);
        Assert.Equal(("php-cgi", null, "/", 2, 8), (pool.Command, pool.Root, pool.WorkingDirectory, pool.Min, pool.Max));
        Assert.Equal((null, TimeSpan.FromSeconds(120), TimeSpan.FromSeconds(30), 1000, TimeSpan.FromSeconds(5), 128L << 20), (pool.Memory, pool.Call, pool.Wait, pool.Queue, pool.Abort, pool.Body));
        Assert.Equal([".php"], pool.Suffixes);
        Assert.Equal("/etc/millrace/www", Read(Pool("\"root\": \"www\""))!.Apps[0].Pool!.WorkingDirectory);

        // One that is named alone moves the other along.
        Assert.Equal((1, 1), SizeOf("\"max\": 1"));
        Assert.Equal((20, 20), SizeOf("\"min\": 20"));
        Assert.Equal((0, 8), SizeOf("\"min\": 0"));

        static (int, int) SizeOf(string setting) => Read(Pool(setting))!.Apps[0].Pool is { } its ? (its.Min, its.Max) : default;
    }

    [Fact]
    public void Both_ends_of_each_range_belong_to_it()
    {
        Assert.NotNull(Read(Pool("\"min\": 0", "\"max\": 1", "\"idle\": \"1s\"", "\"limits\": { \"memory\": \"32m\", \"call\": \"100ms\", \"wait\": \"100ms\", \"queue\": 0, \"abort\": \"100ms\", \"body\": \"1m\" }", "\"recycle\": { \"requests\": 1 }")));
        Assert.NotNull(Read("{\"pools\":[{\"name\": \"own\", \"command\": \"own\", \"suffixes\": [], \"urls\": \"http://127.0.0.1:80\"}]}"));      // no collection of scripts
        Assert.NotNull(Read(Pool("\"min\": 1000", "\"max\": 1000", "\"idle\": \"24h\"", "\"limits\": { \"memory\": \"1024g\", \"call\": \"24h\", \"wait\": \"24h\", \"queue\": 1000000, \"abort\": \"1h\", \"body\": \"1024g\" }")));
    }

    [Fact]
    public void A_setting_that_changes_is_another_pool_and_the_same_ones_are_the_same()
    {
        AppSettings Of(params string[] settings) => Read(Pool(settings))!.Apps[0];

        Assert.True(Of().IsSame(Of()));
        Assert.True(Of("\"environment\": {\"A\": \"1\"}", "\"suffixes\": [\".php\"]").IsSame(Of("\"environment\": {\"A\": \"1\"}")));
        Assert.False(Of("\"max\": 9").IsSame(Of()));
        Assert.False(Of("\"environment\": {\"A\": \"1\"}").IsSame(Of("\"environment\": {\"A\": \"2\"}")));
    }

    // Where it stands, what is said, and the file; '|' is a new line.
    public static TheoryData<string, string, string> Mistakes => new()
    {
        { "1:10", "\"pools\" is a list of pools, and this is an object.", "{\"pools\":{}}" },
        { "1:10", "\"pools\" is empty.", "{\"pools\":[]}" },
        { "1:11", "A pool is an object, { ... }, and this is a string.", "{\"pools\":[\"php\"]}" },
        { "1:11", "A pool needs \"name\": a name such as \"php\".", "{\"pools\":[{" + Place + "}]}" },
        { "1:11", "A pool needs \"urls\"", "{\"pools\":[{\"name\":\"php\"}]}" },
        { "2:1", "There is no setting \"commands\" here. The nearest is \"command\"", Pool("|\"commands\": \"x\"") },
        { "2:1", "There is no setting \"instances\" here.", Pool("|\"instances\": 2") },
        { "2:12", "\"command\" is one program, and this is php-cgi -d x=1. Put what follows its name into \"arguments\": [\"-d\", \"x=1\"].", Pool("|\"command\": \"php-cgi -d x=1\"") },
        { "2:12", "\"command\" is empty", Pool("|\"command\": \"\"") },
        { "2:8", "\"min\" is -1; it must be a whole number from 0 to 1000.", Pool("|\"min\": -1") },
        { "2:8", "\"max\" is 0; it must be a whole number from 1 to 1000.", Pool("|\"max\": 0") },
        { "2:8", "\"max\" is 1001; it must be", Pool("|\"max\": 1001") },
        { "2:8", "\"min\" is 9, and \"max\" is 3: there are never more processes than that.", Pool("|\"min\": 9", "\"max\": 3") },
        { "2:9", "\"idle\" is \"999ms\"; it must be", Pool("|\"idle\": \"999ms\"") },
        { "2:12", "There is no setting \"cal\" here. The nearest is \"call\"", Pool("|\"limits\": {\"cal\": \"1s\"}") },
        { "2:20", "\"call\" is \"99ms\"; it must be", Pool("|\"limits\": {\"call\": \"99ms\"}") },
        { "2:20", "\"wait\" is \"25h\"; it must be", Pool("|\"limits\": {\"wait\": \"25h\"}") },
        { "2:21", "\"abort\" is \"61m\"; it must be", Pool("|\"limits\": {\"abort\": \"61m\"}") },
        { "2:21", "\"queue\" is 1000001; it must be a whole number from 0 to 1000000.", Pool("|\"limits\": {\"queue\": 1000001}") },
        { "2:20", "\"body\" is \"1023k\"; it must be an amount with its unit, such as \"512m\" or \"2g\", from 1m to 1024g.", Pool("|\"limits\": {\"body\": \"1023k\"}") },
        { "2:11", "\"limits\" is empty.", Pool("|\"limits\": {}") },
        { "2:25", "\"requests\" is 0; it must be a whole number from 1 to", Pool("|\"recycle\": {\"requests\": 0}") },
        { "3:22", "never comes to 512m. Recycle it earlier.", Pool("|\"limits\": {\"memory\": \"512m\"}", "|\"recycle\": {\"memory\":\"512m\"}") },
        { "2:13", "\"suffixes\" is what the names of scripts end in: each begins with '.'", Pool("|\"suffixes\": [\"php\"]") },
        { "2:13", "\"suffixes\" is empty, and so every request is the program's", Pool("|\"suffixes\": []", "\"root\": \"www\"") },
        { "2:10", "\"index\" is a list of names of files, without '/'", Pool("|\"index\": [\"a/b.php\"]", "\"root\": \"www\"") },
        { "2:13", "\"fallback\" is the script that answers where there is no file, and index.html ends in none of \"suffixes\" (.php).", Pool("|\"fallback\": \"index.html\"", "\"root\": \"www\"") },
        { "2:13", "\"fallback\" is for a pool that finds its scripts itself: say \"root\"", Pool("|\"fallback\": \"index.php\"") },
        { "1:35", "http://127.0.0.1:80 is for HTTP, where nobody says which script is meant. Say \"root\"", "{\"pools\":[{\"name\": \"php\", \"urls\": \"http://127.0.0.1:80\"}]}" },
        { "2:35", "A pool on a shared address finds its scripts itself: say \"root\"", "{\"shared\":{\"f\":\"http://127.0.0.1:81\"},|\"pools\":[{\"name\":\"php\",\"on\":      \"f\"}]}" },
        { "2:9", "There is no shared address \"front\".", Pool("\"root\": \"www\"", "|\"on\":   \"front\"") },
        { "2:21", "There are two applications, or pools, with the name \"shop\".", "{\"apps\":[" + App + "],|\"pools\":[{\"name\":   \"shop\"," + Place + "}]}" },
        { "2:36", "fastcgi://unix:/run/../run/shop.sock is given twice. Each application, and each pool, has addresses of its own.", "{\"apps\":[" + App + "],|\"pools\":[{\"name\": \"php\", \"urls\":   \"fastcgi://unix:/run/../run/shop.sock\"}]}" },
        { "2:17", "\"MILLRACE_X\" is a variable of the daemon's own", Pool("|\"environment\": {\"MILLRACE_X\": \"1\"}") },
    };

    [Theory]
    [MemberData(nameof(Mistakes))]
    public void Each_mistake_is_one_sentence_with_its_place(string place, string sentence, string file)
    {
        Assert.Null(Read(file.Replace('|', '\n'), out var mistakes));

        Mistake mistake = Assert.Single(mistakes);
        Assert.Contains(sentence, mistake.Sentence, StringComparison.Ordinal);
        Assert.Equal(place, $"{mistake.Place.Line}:{mistake.Place.Column}");
    }

    [Fact]
    public void The_schema_for_editors_and_the_page_about_it_know_the_same_settings()
    {
        JsonElement pool = JsonDocument.Parse(Repository.Read("docs/millrace.schema.json")).RootElement.GetProperty("properties").GetProperty("pools").GetProperty("items").GetProperty("properties");
        string page = Repository.Read("docs/hosting.md");
        page = page[page.IndexOf("## Pools", StringComparison.Ordinal)..];

        Assert.Equal(ServeFileReader.PoolNames.Order(), NamesOf(pool));
        Assert.Equal(ServeFileReader.PoolLimitNames.Order(), NamesOf(pool.GetProperty("limits").GetProperty("properties")));
        Assert.All(ServeFileReader.PoolLimitNames, name => Assert.Contains($"`limits.{name}`", page, StringComparison.Ordinal));
        Assert.All(ServeFileReader.PoolNames.Where(static name => name != "limits"), name => Assert.Contains($"`{name}", page, StringComparison.Ordinal));
    }

    // What a pool's process is told is more than one variable may hold.
    [Fact]
    public void A_pool_comes_to_its_process_as_it_was_however_long()
    {
        var pool = Read(Pool($"\"environment\": {{\"LONG\": \"{new string('x', 250_000)}\"}}"))!.Apps[0];
        var variables = pool.Environment.Where(static variable => variable.Key.StartsWith("MILLRACE_POOL_", StringComparison.Ordinal)).ToDictionary();
        Assert.Equal(3, variables.Count);
        try
        {
            foreach (var (name, value) in variables)
            {
                Environment.SetEnvironmentVariable(name, value);
            }
            PoolSettings taken = PoolSettingsJson.Take()!;
            Assert.Equal((250_000, 8, TimeSpan.FromSeconds(120)), (taken.Environment["LONG"].Length, taken.Max, taken.Call));
            Assert.Null(PoolSettingsJson.Take());
        }
        finally
        {
            foreach (string name in variables.Keys)
            {
                Environment.SetEnvironmentVariable(name, null);
            }
        }
    }

    private static IEnumerable<string> NamesOf(JsonElement properties) => properties.EnumerateObject().Select(static property => property.Name).Order();

    private static string Pool(params string[] settings) => "{\"pools\":[{" + string.Join(", ", [.. (string[])["\"name\": \"php\"", Place], .. settings]) + "}]}";

    private static ServeFile? Read(string text) => Read(text, out _);

    private static ServeFile? Read(string text, out IReadOnlyList<Mistake> mistakes) =>
        ServeFileReader.Read("/etc/millrace/millrace.json", Encoding.UTF8.GetBytes(text), new DaemonPlaces("/default/control.sock", "/default/snapshots"), out mistakes);
}
