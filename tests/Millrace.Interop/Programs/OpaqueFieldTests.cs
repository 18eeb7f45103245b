// Bytes beyond ASCII in the fields of a script (RFC 9110 §5.5, obs-text): they mean what the script and the visitor have agreed on, and arrive as they were written, or the field does not.
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class OpaqueFieldTests(PhpSite site) : IClassFixture<PhpSite>
{
    private const string Disposition = "attachment; filename=\"\u00C3\u00A4.pdf\"";      // each character a byte

    [Theory]
    [InlineData(PhpKind.Fpm)]
    [InlineData(PhpKind.Pool)]
    public async Task They_arrive_as_the_script_has_written_them(PhpKind kind)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace: true);
        WireResponse expected = await PhpSite.AskAsync(site.Nginx, "GET", "/bytes.php");
        foreach (WireResponse found in (WireResponse[])[expected, await PhpSite.AskAsync(app.EndPoint, "GET", "/bytes.php"), await PhpSite.AskAsync(app.EndPoint, "HEAD", "/bytes.php")])
        {
            Assert.Equal((200, Disposition, "yes"), (found.Status, found.Header("Content-Disposition"), found.Header("X-Plain")));
            Assert.Equal(["\u0080\u00FF", "\u00E9"], found.Head.HeaderValues("X-Bytes"));
        }
        Assert.Empty(app.Said.All);
    }

    [Theory]
    [InlineData(PhpKind.Fpm)]
    [InlineData(PhpKind.Pool)]
    public async Task On_Kestrel_such_a_field_is_left_out_and_the_log_says_so(PhpKind kind)
    {
        await using PhpApp app = await site.StartAppAsync(kind);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/bytes.php");
        Assert.Equal((200, null, "yes", "bytes"), (found.Status, found.Header("Content-Disposition"), found.Header("X-Plain"), found.Text));
        Assert.Empty(found.Head.HeaderValues("X-Bytes"));
        string said = Assert.Single(app.Said.All);
        Assert.StartsWith("5 GET /bytes.php: ", said, StringComparison.Ordinal);
        Assert.Contains("Content-Disposition, X-Bytes", said, StringComparison.Ordinal);
        Assert.Contains("ResponseHeaderEncodingSelector", said, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("/accel.php?to=/protected/b%C3%A4r.csv")]
    [InlineData("/accel.php?to=/protected/b%25C3%25A4r.csv")]
    [InlineData("/sendfile.php?to={0}/b%C3%A4r.csv")]
    public async Task Files_that_a_script_has_sent_have_names_in_UTF_8(string target)
    {
        foreach (bool onMillrace in (bool[])[false, true])
        {
            await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace, configure: options => options.SendFileRoots["/protected/"] = site.Private);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target.Replace("{0}", site.Private, StringComparison.Ordinal));
            Assert.Equal((200, "b\u00E4r"), (found.Status, found.Text));
        }
    }

    [Fact]
    public async Task On_Kestrel_they_arrive_where_it_is_told_to_write_Latin_1()
    {
        await using PhpApp app = await site.StartAppAsync(
            PhpKind.Fpm, build: static builder => builder.WebHost.ConfigureKestrel(static kestrel => kestrel.ResponseHeaderEncodingSelector = static _ => Encoding.Latin1));
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/bytes.php");
        Assert.Equal((200, Disposition), (found.Status, found.Header("Content-Disposition")));
        Assert.Equal(["\u0080\u00FF", "\u00E9"], found.Head.HeaderValues("X-Bytes"));
        Assert.Empty(app.Said.All);
    }
}
