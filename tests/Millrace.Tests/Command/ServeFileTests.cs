// The file of `millrace serve`: what it may say, and for each kind of mistake one sentence with its place and what to write instead.

using System.Text;
using System.Text.Json;
using Millrace.Command.Serving;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Command;

public sealed class ServeFileTests
{
    private static readonly string[] s_ok = ["\"name\": \"a\"", "\"target\": \"t\"", "\"urls\": \"http://127.0.0.1:1\""];

    [Fact]
    public void A_file_with_everything_is_read()
    {
        ServeFile file = Read("""
            {
              "$schema": "https://example.org/millrace.schema.json",   // for editors
              "control": "run/control.sock",
              "snapshots": "copies",
              "apps": [
                {
                  "name": "shop-1_a", "target": "../apps/shop", "urls": ["fastcgi://unix:/run/shop.sock?mode=660", "http://127.0.0.1:5001;http://127.0.0.1:5002"],
                  "arguments": ["--a", ""], "environment": { "Title": "Shop = x", "Empty": "" }, "workingDirectory": "w", "user": "shop",
                  "instances": 2, "health": "/healthz?x=%20", "healthHost": "shop.example:8080", "warmUp": ["/", "/b"], "snapshot": false, "watch": false,
                  "timeouts": { "start": "2m", "settle": "3s", "hang": "1500ms", "drain": "1h" },
                  "limits": { "memory": "1g", "descriptors": 4096, "processes": 200, "cpu": 0.5 }, "recycle": { "requests": 100000, "age": "24h", "memory": "900m" },
                },
              ],
            }
            """)!;

        AppSettings app = Assert.Single(file.Apps);
        Assert.Equal(new DaemonPlaces("/etc/millrace/run/control.sock", "/etc/millrace/copies"), file.Places);
        Assert.Equal((false, false), (app.Snapshot, app.Watch));
        Assert.Equal(("shop-1_a", "/etc/apps/shop", "/etc/millrace/w", "shop"), (app.Name, app.Target, app.WorkingDirectory, app.User));
        Assert.Equal(["fastcgi://unix:/run/shop.sock?mode=660", "http://127.0.0.1:5001", "http://127.0.0.1:5002"], app.Urls);
        Assert.Equal(["--a", ""], app.Arguments);
        Assert.Equal([new("Title", "Shop = x"), new("Empty", "")], app.Environment);
        Assert.Equal((2, "/healthz?x=%20", "shop.example:8080"), (app.Instances, app.Health, app.HealthHost));
        Assert.Equal(["/", "/b"], app.WarmUp);
        Assert.Equal((TimeSpan.FromMinutes(2), TimeSpan.FromSeconds(3), TimeSpan.FromMilliseconds(1500), TimeSpan.FromHours(1)), (app.StartTimeout, app.SettleTimeout, app.HangTimeout, app.DrainTimeout));
        Assert.Equal(new AppLimits(1L << 30, 4096, 200, 0.5), app.Limits);
        Assert.Equal(new AppRecycling(100_000, TimeSpan.FromHours(24), 900L << 20), app.Recycling);
    }

    [Fact]
    public void Both_ends_of_each_range_belong_to_it()
    {
        Assert.NotNull(Read(App("\"limits\": {\"memory\": \"32m\", \"descriptors\": 512, \"processes\": 64, \"cpu\": 0.05}", "\"instances\": 1")));
        Assert.NotNull(Read(App("\"limits\": {\"memory\": \"1024g\", \"descriptors\": 1048576, \"processes\": 4194304, \"cpu\": 1024}", "\"instances\": 64")));
        Assert.NotNull(Read(App("\"recycle\": {\"memory\": \"32m\", \"requests\": 100, \"age\": \"10s\"}")));
        Assert.NotNull(Read(App("\"recycle\": {\"memory\": \"1024g\", \"requests\": 1000000000000, \"age\": \"720h\"}")));
        Assert.NotNull(Read(App("\"onDemand\": true", "\"idle\": \"1s\"")));
        Assert.NotNull(Read(App("\"onDemand\": true", "\"idle\": \"24h\"")));
        Assert.Equal((true, null), (Read(App("\"onDemand\": true"))!.Apps[0].OnDemand, Read(App("\"onDemand\": true"))!.Apps[0].Idle));
        Assert.NotNull(Read(App("\"recycle\": {\"memory\": \"511m\"}", "\"limits\": {\"memory\": \"512m\"}")));
    }

    [Fact]
    public void What_is_left_out_has_its_default()
    {
        ServeFile file = Read(App())!;

        Assert.Equal(new DaemonPlaces("/default/control.sock", "/default/snapshots"), file.Places);
        Assert.Equal((true, true), (file.Apps[0].Snapshot, file.Apps[0].Watch));
        Assert.Equal((AppLimits.None, AppRecycling.None), (file.Apps[0].Limits, file.Apps[0].Recycling));
        Assert.Equal((1, null, "localhost", null, null), (file.Apps[0].Instances, file.Apps[0].Health, file.Apps[0].HealthHost, file.Apps[0].User, file.Apps[0].WorkingDirectory));
        Assert.Equal((TimeSpan.FromSeconds(60), TimeSpan.FromSeconds(2), TimeSpan.FromSeconds(30), TimeSpan.FromSeconds(30)), (file.Apps[0].StartTimeout, file.Apps[0].SettleTimeout, file.Apps[0].HangTimeout, file.Apps[0].DrainTimeout));
    }

    // Where it stands, what is said, and the file; '|' is a new line.
    public static TheoryData<string, string, string> Mistakes => new()
    {
        { "1:1", "This is no JSON: ", "" },
        { "2:3", "This is no JSON: ", "{|  apps: [] }" },
        { "1:9", "\"apps\" is a list of applications, and this is an object.", "{\"apps\":{}}" },
        { "1:1", "The file is an object, { ... }, and this is a list.", "[]" },
        { "1:1", "\"apps\" is missing: a list of applications", "{}" },
        { "1:9", "\"apps\" is empty: there is nothing to serve.", "{\"apps\":[]}" },
        { "1:2", "There is no setting \"aps\" here. The nearest is \"apps\"", "{\"aps\":[],\"apps\":[" + Bare() + "]}" },
        { "1:12", "This is no JSON: ", "{\"apps\":[] {}" },
        { "1:13", "\"control\" is a path, and this is a number.", "{\"control\": 1,\"apps\":[" + Bare() + "]}" },
        { "1:13", "/etc/millrace/a?b/control.sock cannot be the daemon's socket", "{\"control\": \"a?b/control.sock\",\"apps\":[" + Bare() + "]}" },
        { "1:13", "/etc/millrace/a;b/control.sock cannot be the daemon's socket", "{\"control\": \"a;b/control.sock\",\"apps\":[" + Bare() + "]}" },
        { "1:13", "and those of the processes beside it (/etc/millrace/0", "{\"control\": \"" + new string('0', 76) + "/c\",\"apps\":[" + Bare() + "]}" },
        { "1:10", "An application is an object, { ... }, and this is a string.", "{\"apps\":[\"shop\"]}" },
        { "1:10", "An application needs \"name\"", "{\"apps\":[{\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "1:10", "An application needs \"target\"", "{\"apps\":[{\"name\":\"a\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "1:10", "An application needs \"urls\"", "{\"apps\":[{\"name\":\"a\",\"target\":\"t\"}]}" },
        { "2:1", "There is no setting \"heath\" here. The nearest is \"health\"", App("|\"heath\": \"/\"") },
        { "3:1", "\"health\" is there twice.", App("|\"health\": \"/\"", "|\"health\": \"/x\"") },
        { "2:11", "\"health\" is a path such as \"/healthz\", and this is true or false.", App("|\"health\": true") },
        { "2:11", "\"healthz\" is no path of a URL", App("|\"health\": \"healthz\"") },
        { "2:11", "\"/a b\" is no path of a URL", App("|\"health\": \"/a b\"") },
        { "2:15", "\"a/b\" is no host name", App("|\"healthHost\": \"a/b\"") },
        { "2:15", "\"a:b:c\" is no host name", App("|\"healthHost\": \"a:b:c\"") },
        { "2:15", "\"a:65536\" is no host name", App("|\"healthHost\": \"a:65536\"") },
        { "1:18", "\"Shop\" cannot be a name of letters a to z", "{\"apps\":[{\"name\":\"Shop\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "1:18", "\"../x\" cannot be a name of letters a to z", "{\"apps\":[{\"name\":\"../x\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "1:18", "\"name\" is empty", "{\"apps\":[{\"name\":\"\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "2:10", "There are two applications with the name \"a\".", "{\"apps\":[" + Bare() + ",|{\"name\": \"a\", \"target\": \"t\", \"urls\": \"http://127.0.0.1:2\"}]}" },
        { "2:38", "fastcgi://127.0.0.1:1 is given twice.", "{\"apps\":[" + Bare() + ",|{\"name\": \"b\", \"target\": \"t\", \"urls\": \"fastcgi://127.0.0.1:1\"}]}" },
        { "2:38", "is given twice.", "{\"apps\":[{\"name\": \"a\", \"target\": \"t\", \"urls\": \"http://unix:/run/a.sock\"},|{\"name\": \"b\", \"target\": \"t\", \"urls\": \"fastcgi://unix:/run//a.sock\"}]}" },
        { "2:38", "http://127.0.0.1:1 is given twice.", "{\"apps\":[" + Bare() + ",|{\"name\": \"b\", \"target\": \"t\", \"urls\": \"http://127.0.0.1:1\"}]}" },
        { "2:12", "\"warmUp\" is empty", App("|\"warmUp\": [\"\"]") },
        { "1:43", "'9000' ", "{\"apps\":[{\"name\":\"a\", \"target\":\"t\",\"urls\":\"9000\"}]}" },
        { "1:43", "fastcgi://fd:3 is a descriptor", "{\"apps\":[{\"name\":\"a\", \"target\":\"t\",\"urls\":\"fastcgi://fd:3\"}]}" },
        { "1:43", "\"urls\" is empty.", "{\"apps\":[{\"name\":\"a\", \"target\":\"t\",\"urls\":[]}]}" },
        { "1:43", "\"urls\" is empty.", "{\"apps\":[{\"name\":\"a\", \"target\":\"t\",\"urls\":\" ; ;\"}]}" },
        { "1:43", "\"urls\" is a string or a list of strings, and this is a number.", "{\"apps\":[{\"name\":\"a\", \"target\":\"t\",\"urls\":9000}]}" },
        { "2:14", "\"instances\" is 0; it must be a whole number from 1 to 64.", App("|\"instances\": 0") },
        { "2:14", "\"instances\" is 65; it must be", App("|\"instances\": 65") },
        { "2:14", "\"instances\" is 1.5; it must be", App("|\"instances\": 1.5") },
        { "2:14", "\"instances\" is a whole number from 1 to 64, and this is a string.", App("|\"instances\": \"2\"") },
        { "2:23", "\"start\" is a time with its unit, such as", App("|\"timeouts\": {\"start\": 30}") },
        { "2:23", "\"start\" is \"30\"; it must be a time with its unit", App("|\"timeouts\": {\"start\": \"30\"}") },
        { "2:23", "\"start\" is \"25h\"; it must be", App("|\"timeouts\": {\"start\": \"25h\"}") },
        { "2:14", "There is no setting \"stop\" here. The nearest is \"start\"; there are start, settle, hang, drain.", App("|\"timeouts\": {\"stop\": \"1s\"}") },
        { "2:13", "\"timeouts\" is an object, { ... }, and this is a string.", App("|\"timeouts\": \"30s\"") },
        { "2:26", "The variable \"Port\" is a string, and this is a number. Put it in quotes.", App("|\"environment\": { \"Port\": 80 }") },
        { "2:18", "\"A=B\" is no name of a variable", App("|\"environment\": { \"A=B\": \"\" }") },
        { "2:18", "\"MILLRACE_SERVE_URLS\" is a variable of the daemon's own", App("|\"environment\": { \"MILLRACE_SERVE_URLS\": \"\" }") },
        { "2:28", "The variable \"A\" is there twice.", App("|\"environment\": { \"A\": \"1\", \"A\": \"2\" }") },
        { "2:14", "\"arguments\" is a list of strings, and this is a string.", App("|\"arguments\": \"--a\"") },
        { "2:15", "\"arguments\" is a list of strings, and this is a number.", App("|\"arguments\": [1]") },
        { "2:10", "\"watch\" is true or false, without quotes, and this is a string.", App("|\"watch\": \"false\"") },
        { "2:13", "\"snapshot\" is true or false, without quotes, and this is null.", App("|\"snapshot\": null") },
        { "2:22", "\"memory\" is an amount with its unit, such as \"512m\" or \"2g\", and this is a number.", App("|\"limits\": {\"memory\": 512}") },
        { "2:22", "\"memory\" is \"512MB\"; it must be an amount with its unit", App("|\"limits\": {\"memory\": \"512MB\"}") },
        { "2:22", "\"memory\" is \"31m\"; it must be an amount with its unit, such as \"512m\" or \"2g\", from 32m to 1024g.", App("|\"limits\": {\"memory\": \"31m\"}") },
        { "2:22", "\"memory\" is \"1025g\"; it must be", App("|\"limits\": {\"memory\": \"1025g\"}") },
        { "2:27", "\"descriptors\" is 511; it must be a whole number from 512 to 1048576.", App("|\"limits\": {\"descriptors\": 511}") },
        { "2:27", "\"descriptors\" is 1048577; it must be", App("|\"limits\": {\"descriptors\": 1048577}") },
        { "2:25", "\"processes\" is 63; it must be a whole number from 64 to 4194304.", App("|\"limits\": {\"processes\": 63}") },
        { "2:25", "\"processes\" is 4194305; it must be", App("|\"limits\": {\"processes\": 4194305}") },
        { "2:19", "\"cpu\" is 0.04; it must be a number of processors from 0.05 to 1024, such as 0.5 for half of one.", App("|\"limits\": {\"cpu\": 0.04}") },
        { "2:19", "\"cpu\" is 1024.1; it must be", App("|\"limits\": {\"cpu\": 1024.1}") },
        { "2:19", "\"cpu\" is a number of processors from 0.05 to 1024, such as 0.5 for half of one, and this is a string.", App("|\"limits\": {\"cpu\": \"50%\"}") },
        { "2:12", "There is no setting \"mem\" here. The nearest is \"memory\"; there are memory, descriptors, processes, cpu.", App("|\"limits\": {\"mem\": \"1g\"}") },
        { "2:11", "\"limits\" is empty. Name one of memory, descriptors, processes, cpu, or take it out.", App("|\"limits\": {}") },
        { "2:11", "\"limits\" is an object, { ... }, and this is a string.", App("|\"limits\": \"512m\"") },
        { "2:25", "\"requests\" is 99; it must be a whole number from 100 to 1000000000000.", App("|\"recycle\": {\"requests\": 99}") },
        { "2:25", "\"requests\" is 1000000000001; it must be", App("|\"recycle\": {\"requests\": 1000000000001}") },
        { "2:20", "\"age\" is \"9s\"; it must be a time with its unit, such as \"500ms\", \"30s\", \"5m\" or \"1h\", from 10s to 720h.", App("|\"recycle\": {\"age\": \"9s\"}") },
        { "2:20", "\"age\" is \"721h\"; it must be", App("|\"recycle\": {\"age\": \"721h\"}") },
        { "2:23", "\"memory\" is \"1m\"; it must be", App("|\"recycle\": {\"memory\": \"1m\"}") },
        { "2:13", "There is no setting \"request\" here. The nearest is \"requests\"", App("|\"recycle\": {\"request\": 1000}") },
        { "2:12", "\"recycle\" is empty.", App("|\"recycle\": {}") },
        { "3:22", "A process that \"limits\" keeps to 512m never comes to 512m. Recycle it earlier.", App("|\"limits\": {\"memory\": \"512m\"}", "|\"recycle\": {\"memory\":\"512m\"}") },
        { "2:9", "An application that is stopped when it is idle is started by whoever comes then: say \"onDemand\": true as well.", App("|\"idle\": \"10m\"") },
        { "2:9", "say \"onDemand\": true as well.", App("|\"idle\": \"10m\"", "\"onDemand\": false") },
        { "2:9", "\"idle\" is \"999ms\"; it must be a time with its unit, such as \"500ms\", \"30s\", \"5m\" or \"1h\", from 1s to 24h.", App("|\"idle\": \"999ms\"", "\"onDemand\": true") },
        { "2:9", "\"idle\" is \"25h\"; it must be", App("|\"idle\": \"25h\"", "\"onDemand\": true") },
        { "2:1", "There is no setting \"ondemand\" here. The nearest is \"onDemand\"", App("|\"ondemand\": true") },
        { "2:13", "\"onDemand\" is true or false, without quotes, and this is a string.", App("|\"onDemand\": \"yes\"") },
        { "1:15", "\"snapshots\" is empty", "{\"snapshots\": \"\",\"apps\":[" + Bare() + "]}" },
        { "2:9", "\"user\" is the name of a user, and this is null.", App("|\"user\": null") },
        { "2:14", "\"arguments\" holds a NUL", App("|\"arguments\": [\"a\\u0000\"]") },
        { "2:9", "\"user\" holds a control character", App("|\"user\": \"a\\u0000\"") },
        { "2:9", "\"a&group=b\" cannot be the name of a user: '&' is not allowed in one.", App("|\"user\": \"a&group=b\"") },
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

    // AppsMax, and the bound of what is said: a file of a megabyte can hold 400,000 mistakes.
    [Theory]
    [InlineData("apps", 1_000, 1_001)]
    [InlineData("apps", 1_001, 1_001)]
    [InlineData("apps", 200_000, 1_001)]
    [InlineData("pools", 200_000, 1_001)]
    [InlineData("apps", 100, 300)]
    public void Of_very_many_mistakes_the_first_thousand_are_told(string list, int count, int told)
    {
        Assert.Null(Read($"{{\"{list}\": [{string.Concat(Enumerable.Repeat("{},", count))}]}}", out var mistakes));

        Assert.Equal(told, mistakes.Count);
        Assert.Equal(told > 1_000 ? 1 : 0, mistakes.Count(static mistake => mistake.Sentence.StartsWith("There are more mistakes.", StringComparison.Ordinal)));
    }

    [Fact]
    public void A_pipe_is_no_file_and_is_not_waited_for()
    {
        string folder = Directory.CreateTempSubdirectory("millrace-file-").FullName;
        string pipe = Path.Combine(folder, "millrace.json");
        using (var make = System.Diagnostics.Process.Start("mkfifo", [pipe]))
        {
            make.WaitForExit();
        }

        Assert.Null(ServeFileSource.TryRead(pipe, new DaemonPlaces("/c", "/s"), out string mistakes));

        Assert.StartsWith($"{pipe} is no file but something else", mistakes, StringComparison.Ordinal);
        Directory.Delete(folder, recursive: true);
    }

    [Fact]
    public void The_schema_for_editors_and_the_page_about_it_know_the_same_settings()
    {
        JsonElement root = JsonDocument.Parse(Repository.Read("docs/millrace.schema.json")).RootElement.GetProperty("properties");
        JsonElement app = root.GetProperty("apps").GetProperty("items").GetProperty("properties");
        string page = Repository.Read("docs/hosting.md");

        Assert.Equal(ServeFileReader.FileNames.Order(), NamesOf(root));
        Assert.Equal(ServeFileReader.AppNames.Order(), NamesOf(app));
        Assert.Equal(ServeFileReader.TimeoutNames.Order(), NamesOf(app.GetProperty("timeouts").GetProperty("properties")));
        Assert.Equal(ServeFileReader.LimitNames.Order(), NamesOf(app.GetProperty("limits").GetProperty("properties")));
        Assert.Equal(ServeFileReader.RecycleNames.Order(), NamesOf(app.GetProperty("recycle").GetProperty("properties")));
        Assert.Equal(AppLimits.DescriptorsMin, app.GetProperty("limits").GetProperty("properties").GetProperty("descriptors").GetProperty("minimum").GetInt32());
        Assert.Equal(AppLimits.DescriptorsMin, root.GetProperty("pools").GetProperty("items").GetProperty("properties").GetProperty("limits").GetProperty("properties").GetProperty("descriptors").GetProperty("minimum").GetInt32());
        Assert.All(ServeFileReader.LimitNames, name => Assert.Contains($"| `limits.{name}` |", page, StringComparison.Ordinal));
        Assert.All(ServeFileReader.RecycleNames, name => Assert.Contains($"| `recycle.{name}` |", page, StringComparison.Ordinal));
        Assert.All(ServeFileReader.AppNames.Where(static name => name is not ("timeouts" or "limits" or "recycle")), name => Assert.Contains($"| `{name}` |", page, StringComparison.Ordinal));
        Assert.All(ServeFileReader.TimeoutNames, name => Assert.Contains($"| `timeouts.{name}` |", page, StringComparison.Ordinal));
    }

    private static IEnumerable<string> NamesOf(JsonElement properties) => properties.EnumerateObject().Select(static property => property.Name).Order();

    [Fact]
    public void All_mistakes_are_said_in_the_order_of_the_file()
    {
        Assert.Null(Read("{ \"apps\": [\n{ \"name\": \"A\",\n\"traget\": \"t\",\n\"urls\": \"x\" } ] }", out var mistakes));

        Assert.Equal(["2:1", "2:11", "3:1", "4:9"], mistakes.Select(static mistake => $"{mistake.Place.Line}:{mistake.Place.Column}"));
    }

    [Fact]
    public void Columns_are_characters_and_a_byte_order_mark_is_none()
    {
        Assert.Null(Read("\uFEFF{ \"äöü\": 1, \"b\": 2, \"apps\": [" + Bare() + "] }", out var mistakes));

        Assert.Equal([3, 13], mistakes.Select(static mistake => mistake.Place.Column));
    }

    [Theory]
    [InlineData("500ms", 500)]
    [InlineData("30s", 30_000)]
    [InlineData("5m", 300_000)]
    [InlineData("24h", 86_400_000)]
    [InlineData("876000h", 3_153_600_000_000)]
    public void A_time_is_a_number_and_its_unit(string text, long milliseconds)
    {
        Assert.True(Duration.TryParse(text, out TimeSpan time));
        Assert.Equal(milliseconds, time.TotalMilliseconds);
    }

    [Theory]
    [InlineData("")]
    [InlineData("s")]
    [InlineData("30")]
    [InlineData("30 s")]
    [InlineData("-1s")]
    [InlineData("1.5s")]
    [InlineData("30S")]
    [InlineData("99999999999s")]
    [InlineData("876001h")]
    [InlineData("999999999h")]
    [InlineData("1d")]
    public void What_else_is_written_is_no_time(string text) => Assert.False(Duration.TryParse(text, out _));

    [Fact]
    public void Settings_are_the_same_when_all_that_a_process_knows_of_is()
    {
        AppSettings one = Read(App("\"environment\": { \"A\": \"1\", \"B\": \"2\" }", "\"warmUp\": \"/\""))!.Apps[0];

        Assert.True(one.IsSame(Read(App("\"environment\": { \"B\": \"2\", \"A\": \"1\" }", "\"warmUp\": [\"/\"]"))!.Apps[0]));
        Assert.False(one.IsSame(Read(App("\"environment\": { \"A\": \"1\", \"B\": \"3\" }", "\"warmUp\": \"/\""))!.Apps[0]));
        Assert.False(one.IsSame(Read(App("\"environment\": { \"A\": \"1\", \"B\": \"2\" }"))!.Apps[0]));
        Assert.False(one.IsSame(one with { Urls = ["http://127.0.0.1:2"] }));
        Assert.False(one.IsSame(one with { Instances = 2 }));
        Assert.False(one.IsSame(one with { Arguments = ["x"] }));
        Assert.True(one.IsSame(one with { Limits = new AppLimits(null, null, null, null) }));
        Assert.False(one.IsSame(one with { Limits = one.Limits with { Cpu = 1 } }));
        Assert.False(one.IsSame(one with { Recycling = one.Recycling with { Requests = 100 } }));
    }

    private static string Bare() => "{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}";

    private static string App(params string[] more) => $"{{\"apps\":[{{{string.Join(',', [.. s_ok, .. more])}}}]}}";

    private static ServeFile? Read(string text, out IReadOnlyList<Mistake> mistakes) =>
        ServeFileReader.Read("/etc/millrace/millrace.json", Encoding.UTF8.GetBytes(text), new DaemonPlaces("/default/control.sock", "/default/snapshots"), out mistakes);

    private static ServeFile? Read(string text)
    {
        ServeFile? file = Read(text, out var mistakes);
        Assert.Empty(mistakes);
        return file;
    }
}
