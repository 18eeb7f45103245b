// What `millrace run` prints once the app listens, and what it says where it chose the addresses itself.

using System.Text;
using Millrace.Command.Running;
using Millrace.Command.Terminals;

namespace Millrace.Tests.Command;

public sealed class BannerTests
{
    private const string Socket = "fastcgi://unix:/run/millrace-hello.sock?mode=660&group=www-data";

    private static readonly SocketPlace s_place = new("/run", IsOwn: false, "/run/millrace-hello.sock", new WebServerGroup("www-data", 33));

    [Fact]
    public void Addresses_and_the_nginx_block_are_printed()
    {
        string text = Print([DefaultAddress.Http, Socket], new ChosenAddresses(s_place, HttpIsFree: true));

        Assert.StartsWith(
            "hello listens on http://127.0.0.1:5000 and fastcgi://unix:/run/millrace-hello.sock\nTry it: ./millrace get fastcgi://unix:/run/millrace-hello.sock /\n\n# /etc/nginx",
            text, StringComparison.Ordinal);
        Assert.Contains("server unix:/run/millrace-hello.sock;", text, StringComparison.Ordinal);
    }

    [Fact]
    public void That_the_port_for_a_browser_is_another_programs_is_said_with_the_cure()
    {
        string text = Print([Socket], new ChosenAddresses(s_place, HttpIsFree: false));

        Assert.StartsWith("hello listens on fastcgi://unix:/run/millrace-hello.sock\nhttp://127.0.0.1:5000 is another program's", text, StringComparison.Ordinal);
        Assert.Contains($"--urls 'http://127.0.0.1:0;{Socket}'", text, StringComparison.Ordinal);
    }

    [Fact]
    public void Nothing_is_said_of_the_port_for_a_browser_where_the_user_named_the_addresses() =>
        Assert.DoesNotContain("5000", Print([Socket], chosen: null), StringComparison.Ordinal);

    [Theory]
    [InlineData("fastcgi://unix:/run/hello.sock", true)]
    [InlineData("fastcgi://unix:/run/hello.sock?mode=600", false)]
    [InlineData(Socket, false)]
    [InlineData("fastcgi://127.0.0.1:9000", false)]
    public void Whom_a_socket_is_open_to_is_said_where_the_user_named_it_and_not_that(string address, bool isSaid) =>
        Assert.Equal(isSaid, Print([address], chosen: null).Contains("The socket is open to you and your group.", StringComparison.Ordinal));

    [Theory]
    [InlineData("fastcgi://fd:3")]
    [InlineData("fastcgi://*:9000?allow=10.0.0.5")]
    [InlineData("fastcgi://[::]:9000")]
    [InlineData("fastcgi://0.0.0.0:9000?allow=10.0.0.5")]
    public void No_block_is_printed_for_an_address_that_leads_no_web_server_to_the_application(string address)
    {
        string text = Print([address], chosen: null);

        Assert.Equal($"hello listens on {address.Split('?')[0]}\n", text);
    }

    [Fact]
    public void That_only_the_user_may_open_the_socket_is_said_where_it_was_chosen()
    {
        var mine = new SocketPlace("/run/user/7/millrace", IsOwn: true, "/run/user/7/millrace/hello.sock", Group: null);

        Assert.Contains("private to you", Print([mine.Address], new ChosenAddresses(mine, HttpIsFree: true)), StringComparison.Ordinal);
        Assert.DoesNotContain("private to you", Print([mine.Address], chosen: null), StringComparison.Ordinal);
    }

    [Fact]
    public void It_is_written_in_one_piece_so_that_the_log_of_the_app_does_not_get_in_between()
    {
        using var output = new WriteCounter();
        using var console = new CommandConsole(output, Stream.Null, colour: true);

        Banner.Print(console, "./millrace", "hello", [DefaultAddress.Http, Socket], chosen: null, hasIPv6: true);

        Assert.Equal(1, output.Writes);
    }

    [Fact]
    public void A_chosen_address_that_is_taken_is_refused_with_other_addresses_to_name()
    {
        string text = new ChosenAddresses(s_place, HttpIsFree: true).Explain("The socket /run/millrace-hello.sock is owned by process 412 (dotnet); stop it or choose another path.");

        Assert.StartsWith("The socket /run/millrace-hello.sock is owned by process 412", text, StringComparison.Ordinal);
        Assert.Contains("--urls 'http://127.0.0.1:0;fastcgi://unix:/run/millrace-hello-2.sock?mode=660&group=www-data'", text, StringComparison.Ordinal);
    }

    private static string Print(IReadOnlyList<string> addresses, ChosenAddresses? chosen)
    {
        using var output = new MemoryStream();
        using (var console = new CommandConsole(output, Stream.Null, colour: false))
        {
            Banner.Print(console, "./millrace", "hello", addresses, chosen, hasIPv6: true);
        }
        return Encoding.UTF8.GetString(output.ToArray());
    }

    private sealed class WriteCounter : MemoryStream
    {
        public int Writes { get; private set; }

        // A MemoryStream that is derived from leads every way of writing here.
        public override void Write(byte[] buffer, int offset, int count)
        {
            Writes++;
            base.Write(buffer, offset, count);
        }
    }
}
