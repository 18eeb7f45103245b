// Which application a request of a shared address is for.

using Millrace.Command.Routing;

namespace Millrace.Tests.Command;

public sealed class RouteTableTests
{
    private static readonly RouteTable s_table = new(
    [
        new("any", "", null, null, ""),
        new("any-wiki", "", null, null, "/wiki"),
        new("blog", "", null, "blog.example", ""),
        new("wiki", "", null, "blog.example", "/wiki"),
        new("deep", "", null, "blog.example", "/wiki/deep"),
        new("tenants", "", null, "*.example", "/t"),
        new("shops", "", null, "*.shop.example", "/t"),
        new("admin", "", null, "admin.example", "/admin"),
    ]);

    [Theory]
    [InlineData("blog.example", "/", "blog")]
    [InlineData("BLOG.Example", "/", "blog")]
    [InlineData("blog.example.", "/", "blog")]
    [InlineData("blog.example", "/wiki", "wiki")]
    [InlineData("blog.example", "/wiki/", "wiki")]
    [InlineData("blog.example", "/wiki/x", "wiki")]
    [InlineData("blog.example", "/wiki/deep", "deep")]
    [InlineData("blog.example", "/wiki/deeper", "wiki")]
    [InlineData("blog.example", "/wikis", "blog")]
    [InlineData("blog.example", "/Wiki", "blog")]
    [InlineData("blog.example", "//wiki", "blog")]
    [InlineData("a.example", "/t/x", "tenants")]
    [InlineData("a.b.example", "/t", "tenants")]
    [InlineData("a.shop.example", "/t", "shops")]
    [InlineData("shop.example", "/t", "tenants")]
    [InlineData(".example", "/t", "any")]
    [InlineData("example", "/t", "any")]
    [InlineData("admin.example", "/admin/x", "admin")]
    [InlineData("admin.example", "/t", "tenants")]
    [InlineData("admin.example", "/x", "any")]
    [InlineData("other", "/wiki/x", "any-wiki")]
    [InlineData("", "/", "any")]
    [InlineData("[::1]", "/", "any")]
    public void The_nearest_host_with_a_path_that_leads_there_and_of_its_paths_the_longest(string host, string path, string app) =>
        Assert.Equal(app, s_table.Find(host, path)?.App);

    [Theory]
    [InlineData("blog.example", "/x")]
    [InlineData("other", "/wiki")]
    [InlineData("", "/")]
    public void Where_no_path_leads_there_is_no_application(string host, string path) =>
        Assert.Null(new RouteTable([new("wiki", "", null, "blog.example", "/wiki")]).Find(host, path));

    [Fact]
    public void Routes_reach_the_process_of_a_router_whole_however_many_there_are()
    {
        Route[] routes = [.. Enumerable.Range(0, 2_000).Select(static i => new Route($"app{i}", $"/run/millrace/app{i}.app.sock", $"/run/millrace/app{i}.up.sock", $"{i}.bücher.example", "/größe \"x\""))];
        var variables = RouteJson.Write(routes).ToArray();
        Assert.All(variables, static variable => Assert.InRange(variable.Value.Length, 1, 131_000));
        foreach (var (name, value) in variables)
        {
            Environment.SetEnvironmentVariable(name, value);
        }

        Assert.Equal(routes, RouteJson.Take());
        Assert.Null(RouteJson.Take());
    }
}
