// Shared addresses in the file of `millrace serve`: what they become, and what is said of each mistake.

using System.Text;
using Millrace.Command.Routing;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class SharedAddressTests
{
    [Fact]
    public void Each_shared_address_has_a_router_behind_the_applications_which_are_reached_over_sockets_of_the_daemons_own()
    {
        ServeFile file = Read("""
            {
              "control": "/run/m/control.sock",
              "shared": { "front": "fastcgi://unix:/run/front.sock?mode=660", "inner": { "urls": ["http://127.0.0.1:80;http://[::1]:80"], "instances": 3, "user": "www-data" } },
              "apps": [
                { "name": "blog", "target": "b", "on": "front", "host": ["Blog.example", "*.blog.example"] },
                { "name": "wiki", "target": "w", "on": "front", "path": "/wiki/", "urls": "http://127.0.0.1:1" },
                { "name": "own", "target": "o", "urls": "http://127.0.0.1:2" },
                { "name": "admin", "target": "a", "on": "inner" }
              ]
            }
            """);

        Assert.Equal(["blog", "wiki", "own", "admin", "front", "inner"], file.Apps.Select(static app => app.Name));
        Assert.Equal("4 applications", file.CountText);
        Assert.Equal(["fastcgi://unix:/run/m/shared/blog.app.sock?mode=600"], file.Apps[0].Urls);
        Assert.Equal(["http://127.0.0.1:1", "fastcgi://unix:/run/m/shared/wiki.app.sock?mode=600"], file.Apps[1].Urls);
        Assert.Equal(["", "/wiki", "", ""], file.Apps.Take(4).Select(static app => app.PathBase));
        Assert.Equal(["front:blog.example/", "front:*.blog.example/"], file.Apps[0].SharedAs.Select(static place => place.ToString()));
        Assert.Equal(["front:/wiki"], file.Apps[1].SharedAs.Select(static place => place.ToString()));
        Assert.Equal(["fastcgi://unix:/run/m/shared/admin.app.sock?mode=600&owner=www-data", "http://unix:/run/m/shared/admin.up.sock?mode=600&owner=www-data"], file.Apps[3].Urls);
        AppSettings front = file.Apps[4], inner = file.Apps[5];
        Assert.Equal((true, false, false, 1, 3, null, "www-data"), (front.IsRouter, front.Snapshot, front.Watch, front.Instances, inner.Instances, front.User, inner.User));
        Assert.Equal(["http://127.0.0.1:80", "http://[::1]:80"], inner.Urls);
        Assert.EndsWith("Millrace.Command.dll", front.Target, StringComparison.Ordinal);
        Assert.Equal(["route"], front.Arguments);
        Assert.Equal(
            RouteJson.Write([new("blog", "blog.app.sock", null, "blog.example", ""), new("blog", "blog.app.sock", null, "*.blog.example", ""), new("wiki", "wiki.app.sock", null, null, "/wiki")]),
            front.Environment.Where(static variable => variable.Key.StartsWith("MILLRACE_ROUTES", StringComparison.Ordinal)));
    }

    [Fact]
    public void The_unit_gives_an_application_on_a_shared_address_the_time_that_its_router_is_ahead_besides()
    {
        string UnitOf(string own, string shared) => UnitFile.Write(
            Read($$"""{ "shared": { "front": "http://127.0.0.1:80" }, "apps": [ { "name": "a", "target": "a", "on": "front", "timeouts": { "drain": "{{shared}}" } }, { "name": "b", "target": "b", "urls": "http://127.0.0.1:1", "timeouts": { "drain": "{{own}}" } } ] }"""),
            ["millrace"],
            isRoots: false);
        Assert.Contains("\nTimeoutStopSec=75\n", UnitOf("10s", "20s"), StringComparison.Ordinal);
        Assert.Contains("\nTimeoutStopSec=105\n", UnitOf("60s", "20s"), StringComparison.Ordinal);
    }

    [Fact]
    public void Another_host_is_the_routers_business_alone_and_another_path_the_applications_too()
    {
        ServeFile one = Read(Front("\"host\": \"a.example\""));
        ServeFile host = Read(Front("\"host\": \"b.example\""));
        ServeFile path = Read(Front("\"host\": \"a.example\", \"path\": \"/a\""));

        Assert.True(one.Apps[0].IsSame(host.Apps[0]));
        Assert.False(one.Apps[1].IsSame(host.Apps[1]));
        Assert.False(one.Apps[0].IsSame(path.Apps[0]));
        Assert.False(one.Apps[1].IsSame(path.Apps[1]));
        Assert.True(one.Apps[1].IsSame(Read(Front("\"host\": \"a.example\"")).Apps[1]));
    }

    // Where each looks through all before it for its place, these take many minutes.
    [Fact]
    public void A_large_file_is_read_in_a_time_that_grows_with_its_size_and_no_faster()
    {
        const int count = 2_000_000;
        byte[] file = Encoding.ASCII.GetBytes("[" + string.Concat(Enumerable.Repeat("0,", count)) + "\n\n  1]");

        PlacedValue list = PlacedJson.Parse(file);

        Assert.Equal((count + 1, new Place(1, 2 * count), new Place(3, 3)), (list.Items.Count, list.Items[count - 1].Place, list.Items[count].Place));
    }

    [Theory]
    [InlineData("bücher.example", "xn--bcher-kva.example")]
    [InlineData("BÜCHER.example", "xn--bcher-kva.example")]
    [InlineData("*.Bücher.example", "*.xn--bcher-kva.example")]
    [InlineData("xn--bcher-kva.example", "xn--bcher-kva.example")]
    [InlineData("a_b.example", "a_b.example")]
    [InlineData("::1", "[::1]")]
    [InlineData("[::1]", "[::1]")]
    [InlineData("127.0.0.1", "127.0.0.1")]
    public void A_host_leads_there_as_clients_send_it(string written, string sent)
    {
        ServeFile file = Read(Front($"\"host\": \"{written}\""));

        Assert.Equal($"front:{sent}/", file.Apps[0].SharedAs.Single().ToString());
    }

    // Where it stands, what is said, and the file; '|' is a new line.
    public static TheoryData<string, string, string> Mistakes => new()
    {
        { "1:11", "\"shared\" is an object of names and addresses, such as { \"front\": \"fastcgi://unix:/run/front.sock\" }, and this is a string.", "{\"shared\":\"x\",\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "1:12", "\"Front\" cannot be a name of letters a to z", Front("").Replace("{\"front\":", "{\"Front\":", StringComparison.Ordinal).Replace("\"on\":\"front\"", "\"on\":\"Front\"", StringComparison.Ordinal) },
        { "1:12", "\"\" cannot be a name of letters a to z", "{\"shared\":{\"\":\"http://127.0.0.1:9\"},\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
        { "2:1", "\"front\" is there twice.", Front("").Replace("\"http://127.0.0.1:9\"", "\"http://127.0.0.1:9\",|\"front\":\"http://127.0.0.1:8\"", StringComparison.Ordinal) },
        { "1:20", "A shared address needs \"urls\": an address such as", Front("").Replace("\"http://127.0.0.1:9\"", "{}", StringComparison.Ordinal) },
        { "1:21", "There is no setting \"url\" here. The nearest is \"urls\"", Front("").Replace("\"http://127.0.0.1:9\"", "{\"url\":\"http://127.0.0.1:9\",\"urls\":\"http://127.0.0.1:9\"}", StringComparison.Ordinal) },
        { "2:8", "\"host\" is empty, and so nobody would be led here. Name a host, or take \"host\" out: then any leads here.", Front("|\"host\":[]") },
        { "1:20", "'x' ", Front("").Replace("\"http://127.0.0.1:9\"", "\"x\"", StringComparison.Ordinal) },
        { "1:20", "fastcgi://fd:3 is a descriptor", Front("").Replace("http://127.0.0.1:9", "fastcgi://fd:3", StringComparison.Ordinal) },
        { "2:6", "There is no shared address \"frnt\". The nearest is \"front\".", Front("").Replace("\"on\":\"front\"", "|\"on\":\"frnt\"", StringComparison.Ordinal) },
        { "2:6", "There is no shared address \"front\". Name it beside \"apps\": \"shared\": { \"front\": \"fastcgi://unix:/run/shop.sock\" }.", "{\"apps\":[{\"name\":\"a\",\"target\":\"t\",|\"on\":\"front\"}]}" },
        { "2:6", "\"on\" is the name of a shared address, and this is a list.", Front("").Replace("\"on\":\"front\"", "|\"on\":[\"front\"]", StringComparison.Ordinal) },
        { "2:8", "\"host\" chooses among the requests of a shared address: name that with \"on\".", "{\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\",|\"host\":\"x.example\"}]}" },
        { "2:8", "\"path\" chooses among the requests of a shared address: name that with \"on\".", "{\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\",|\"path\":\"/x\"}]}" },
        { "2:9", "\"x.example:80\" is no host name", Front("|\"host\": \"x.example:80\"") },
        { "2:9", "\"*\" is no host name", Front("|\"host\": \"*\"") },
        { "2:9", "\"a.*.example\" is no host name", Front("|\"host\": \"a.*.example\"") },
        { "2:9", "\"x.example.\" is no host name", Front("|\"host\": \"x.example.\"") },
        { "2:9", "\"fe80::1%x; } server { return 200; } server { #\" is no host name", Front("|\"host\": \"fe80::1%x; } server { return 200; } server { #\"") },
        { "2:9", "\"path\" is a path such as \"/wiki\", and this is a number.", Front("|\"path\": 1") },
        { "2:9", "\"wiki\" is no path that leads to an application", Front("|\"path\": \"wiki\"") },
        { "2:9", "\"/a//b\" is no path that leads to an application", Front("|\"path\": \"/a//b\"") },
        { "2:9", "\"/a/../b\" is no path that leads to an application", Front("|\"path\": \"/a/../b\"") },
        { "2:9", "\"/a%20b\" is no path that leads to an application", Front("|\"path\": \"/a%20b\"") },
        { "2:9", "\"/a?b\" is no path that leads to an application", Front("|\"path\": \"/a?b\"") },
        { "2:47", "x.example/w of \"front\" is for \"a\" already.", Front("\"host\": \"x.example\", \"path\": \"/w\"},|{\"name\":\"b\",\"target\":\"t\",\"on\":\"front\",\"host\": \"X.example\", \"path\": \"/w/\"") },
        { "1:58", "There are two applications, or shared addresses, with the name \"front\".", Front("").Replace("\"name\":\"a\"", "\"name\":\"front\"", StringComparison.Ordinal) },
        { "1:20", "http://127.0.0.1:9 is given twice.", Front("|\"urls\":\"http://127.0.0.1:9\"") },
        { "1:12", "No application is on \"front\".", "{\"shared\":{\"front\":\"http://127.0.0.1:9\"},\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"urls\":\"http://127.0.0.1:1\"}]}" },
    };

    [Theory]
    [MemberData(nameof(Mistakes))]
    public void Each_mistake_is_one_sentence_with_its_place(string place, string sentence, string file)
    {
        Assert.Null(ServeFileReader.Read("/etc/millrace/millrace.json", Encoding.UTF8.GetBytes(file.Replace('|', '\n')), new DaemonPlaces("/c/control.sock", "/s"), out var mistakes));

        Mistake mistake = Assert.Single(mistakes);
        Assert.Contains(sentence, mistake.Sentence, StringComparison.Ordinal);
        Assert.Equal(place, $"{mistake.Place.Line}:{mistake.Place.Column}");
    }

    private static string Front(string more) =>
        "{\"shared\":{\"front\":\"http://127.0.0.1:9\"},\"apps\":[{\"name\":\"a\",\"target\":\"t\",\"on\":\"front\"" + (more.Length == 0 ? "" : "," + more) + "}]}";

    private static ServeFile Read(string text)
    {
        ServeFile? file = ServeFileReader.Read("/etc/millrace/millrace.json", Encoding.UTF8.GetBytes(text), new DaemonPlaces("/c/control.sock", "/s"), out var mistakes);
        Assert.Empty(mistakes);
        return file!;
    }
}
