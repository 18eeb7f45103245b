// The table of repeated strings saves allocations, stays small, and keeps no secrets.

using System.Text;
using Millrace.Exchanges;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Exchanges;

public sealed class StringTableTests
{
    [Fact]
    public void The_same_bytes_give_the_same_string()
    {
        var table = new StringTable();
        foreach (string text in (string[])["a", "/hello", "example.com", new string('x', StringTable.LengthMax)])
        {
            byte[] bytes = Encoding.ASCII.GetBytes(text);
            Assert.Equal(text, table.Get(bytes));
            Assert.Same(table.Get(bytes), table.Get(bytes.ToArray()));
        }
    }

    [Fact]
    public void Longer_sequences_are_not_kept()
    {
        var table = new StringTable();
        byte[] bytes = Encoding.ASCII.GetBytes(new string('x', StringTable.LengthMax + 1));
        Assert.Equal(table.Get(bytes), table.Get(bytes));
        Assert.NotSame(table.Get(bytes), table.Get(bytes));
    }

    [Fact]
    public void A_sequence_that_shares_its_place_with_another_is_never_taken_for_it()
    {
        var table = new StringTable();
        for (int round = 0; round < 2; round++)
        {
            for (int i = 0; i < 20_000; i++)
            {
                string text = $"/items/{i}/same-end";
                Assert.Equal(text, table.Get(Encoding.ASCII.GetBytes(text)));
            }
        }
    }

    [Fact]
    public void The_table_never_grows()
    {
        var table = new StringTable();
        WeakReference[] strings = Fill(table, 50_000);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.InRange(strings.Count(static s => s.IsAlive), 1, 512);
        GC.KeepAlive(table);
    }

    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
    private static WeakReference[] Fill(StringTable table, int count) =>
        [.. Enumerable.Range(0, count).Select(i => new WeakReference(table.Get(Encoding.ASCII.GetBytes($"value number {i}"))))];

    [Theory]
    [InlineData(new byte[] { 0xC3, 0xA9 }, "\u00E9")]
    [InlineData(new byte[] { 0xE9 }, "\u00E9")]
    [InlineData(new byte[] { 0xC3, 0x28 }, "\u00C3(")]
    public void Text_is_UTF_8_where_it_is_valid_and_Latin_1_else(byte[] bytes, string text) => Assert.Equal(text, new StringTable().Get(bytes));

    [Theory]
    [InlineData("Cookie")]
    [InlineData("authorization")]
    [InlineData("Proxy-Authorization")]
    [InlineData("X-Api-Key")]
    [InlineData("X-Auth")]
    [InlineData("X-CSRF-Token")]
    [InlineData("Client-Secret")]
    public void Fields_that_carry_secrets_are_known(string name) => Assert.True(StringTable.IsSecret(name));

    [Theory]
    [InlineData("Accept")]
    [InlineData("User-Agent")]
    [InlineData("Host")]
    public void Ordinary_fields_are_no_secrets(string name) => Assert.False(StringTable.IsSecret(name));

    [Fact]
    public async Task A_cookie_is_made_anew_for_each_request_and_a_user_agent_is_not()
    {
        using var folder = new SocketFolder();
        var agents = new List<string>();
        var cookies = new List<string>();
        await using MillraceServer server = await MillraceServer.StartAsync(folder.NewAddress(), (request, response) =>
        {
            agents.Add(request.Header("User-Agent")!);
            cookies.Add(request.Header("Cookie")!);
        }, new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(200, peer.Exchange(new FastCgiRequest("/").WithHeader("User-Agent", "test/1.0").WithHeader("Cookie", "session=0123456789")).Status);
        }

        Assert.All(cookies, static cookie => Assert.Equal("session=0123456789", cookie));
        Assert.Equal(20, cookies.Distinct(ReferenceEqualityComparer.Instance).Count());
        Assert.InRange(agents.Distinct(ReferenceEqualityComparer.Instance).Count(), 1, 10);   // one for each thread that drove the loop
    }
}
