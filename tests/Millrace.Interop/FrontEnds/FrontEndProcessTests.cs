// What happens where a front end cannot be started: a failure that says what to do, never a test left out.
namespace Millrace.Interop.FrontEnds;

public sealed class FrontEndProcessTests
{
    [Fact]
    public void Missing_front_end_is_a_failure_that_says_how_to_install_it()
    {
        FileNotFoundException failure = Assert.Throws<FileNotFoundException>(
            static () => FrontEndProcess.Find("nginx", "/nonexistent/nginx"));
        Assert.Contains("apt-get install nginx", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Front_end_that_ends_at_once_is_a_failure_that_says_what_it_said()
    {
        string program = FrontEndProcess.Find("nginx", "/usr/sbin/nginx");
        IOException failure = await Assert.ThrowsAsync<IOException>(() => FrontEndProcess.StartAsync(
            program, ["-c", "/nonexistent/nginx.conf"], new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 1)));
        Assert.Contains("/nonexistent/nginx.conf", failure.Message, StringComparison.Ordinal);
    }
}
