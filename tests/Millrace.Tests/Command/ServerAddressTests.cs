// The address of a server, as a client reads it.

using Millrace.Command;

namespace Millrace.Tests.Command;

public sealed class ServerAddressTests
{
    [Theory]
    [InlineData("fastcgi://127.0.0.1:9000", "fastcgi://127.0.0.1:9000")]
    [InlineData("fastcgi://[::1]:9000", "fastcgi://[::1]:9000")]
    [InlineData("FASTCGI://localhost:1", "fastcgi://localhost:1")]
    [InlineData("fastcgi://10.0.0.1:65535/?allow=10.0.0.5,10.0.0.6", "fastcgi://10.0.0.1:65535")]
    [InlineData("fastcgi://unix:/run/app.sock?mode=660&group=www-data", "fastcgi://unix:/run/app.sock")]
    [InlineData("http://unix:/run/app.sock", "http://unix:/run/app.sock")]
    [InlineData("http://example.org", "http://example.org:80")]
    [InlineData("http://[::1]/", "http://[::1]:80")]
    [InlineData("http://[fe80::1%eth0.1]:5000", "http://[fe80::1%eth0.1]:5000")]
    public void Address_is_read_without_its_listening_options(string text, string canonical) => Assert.Equal(canonical, ServerAddress.Parse(text).ToString());

    [Theory]
    [InlineData("")]
    [InlineData("unix:/run/app.sock")]
    [InlineData("https://127.0.0.1:443")]
    [InlineData("fastcgi://unix:run/app.sock")]
    [InlineData("fastcgi://127.0.0.1")]
    [InlineData("fastcgi://127.0.0.1:0")]
    [InlineData("fastcgi://127.0.0.1:65536")]
    [InlineData("fastcgi://127.0.0.1:+9")]
    [InlineData("fastcgi://::1:9000")]
    [InlineData("fastcgi://[127.0.0.1]:9000")]
    [InlineData("fastcgi://:9000")]
    [InlineData("fastcgi://[::1%a\nb]:9000")]
    [InlineData("fastcgi://[::1%a b]:9000")]
    [InlineData("fastcgi://[::1%\"]:9000")]
    [InlineData("fastcgi://[::1%]]:9000")]
    public void What_is_no_address_is_refused_with_the_forms_there_are(string text)
    {
        var failure = Assert.Throws<CommandFailure>(() => ServerAddress.Parse(text));
        Assert.Equal(ExitCode.Usage, failure.ExitCode);
        Assert.Contains("fastcgi://127.0.0.1:9000", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("http://example.org", "example.org")]
    [InlineData("http://example.org:8080", "example.org:8080")]
    [InlineData("http://[::1]:80", "[::1]")]
    [InlineData("fastcgi://127.0.0.1:9000", "127.0.0.1:9000")]
    [InlineData("fastcgi://unix:/run/app.sock", "localhost")]
    public void A_request_names_the_host_as_curl_does(string text, string host) => Assert.Equal(host, ServerAddress.Parse(text).DefaultHost);

    [Fact]
    public void Socket_path_beyond_what_the_system_holds_is_refused()
    {
        Assert.Equal(107, ServerAddress.Parse("fastcgi://unix:/" + new string('a', 106)).SocketPath!.Length);
        Assert.Throws<CommandFailure>(() => ServerAddress.Parse("fastcgi://unix:/" + new string('a', 107)));
    }
}
