// Where `millrace run` listens when nobody says.

using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class DefaultAddressTests
{
    private static readonly WebServerGroup s_webGroup = new("www-data", 33);

    [Fact]
    public void Root_gets_a_socket_in_run_that_the_web_server_may_open()
    {
        var place = DefaultAddress.Choose("hello", new UserFacts(0, RunIsWritable: true, s_webGroup, RuntimeDirectory: "/run/user/0"));

        Assert.Equal(["fastcgi://unix:/run/millrace-hello.sock?mode=660&group=www-data"], new ChosenAddresses(place, HttpIsFree: false).List);
        Assert.False(place.IsOwn);
    }

    [Theory]
    [InlineData(true, 2)]
    [InlineData(false, 1)]
    public void A_browser_is_served_too_unless_something_else_has_the_port(bool httpIsFree, int count)
    {
        var place = DefaultAddress.Choose("hello", new UserFacts(0, RunIsWritable: true, s_webGroup, RuntimeDirectory: null));

        var addresses = new ChosenAddresses(place, httpIsFree).List;

        Assert.Equal(count, addresses.Count);
        Assert.Equal(httpIsFree, addresses.Contains(DefaultAddress.Http));
    }

    [Fact]
    public void Member_of_the_web_servers_group_gets_a_directory_that_it_may_enter()
    {
        var place = DefaultAddress.Choose("hello", new UserFacts(1000, RunIsWritable: false, s_webGroup, RuntimeDirectory: "/run/user/1000"));

        Assert.Equal(["fastcgi://unix:/tmp/millrace-1000/hello.sock?mode=660&group=www-data"], new ChosenAddresses(place, HttpIsFree: false).List);
        Assert.True(place.IsOwn);
    }

    [Theory]
    [InlineData("/run/user/1000", "fastcgi://unix:/run/user/1000/millrace/hello.sock")]
    [InlineData(null, "fastcgi://unix:/tmp/millrace-1000/hello.sock")]
    public void Anybody_else_gets_a_directory_of_his_own(string? runtimeDirectory, string address)
    {
        var place = DefaultAddress.Choose("hello", new UserFacts(1000, RunIsWritable: false, WebGroup: null, runtimeDirectory));

        Assert.Equal([address], new ChosenAddresses(place, HttpIsFree: false).List);
        Assert.True(place.IsOwn);
    }

    [Fact]
    public void Group_is_the_first_known_one_that_may_be_used()
    {
        string[] groups = ["root:x:0:", "broken", "nginx:x:101:", "www-data:x:33:me,you"];

        Assert.Equal(s_webGroup, WebServerGroup.Find(groups, _ => true));
        Assert.Equal(new WebServerGroup("nginx", 101), WebServerGroup.Find(groups, id => id == 101));
        Assert.Null(WebServerGroup.Find(groups, _ => false));
        Assert.Null(WebServerGroup.Find([], _ => true));
    }
}
