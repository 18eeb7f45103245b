// A table of many fields: found and removed by name as in a short one, at a cost for each that does not grow with their number.

using System.Diagnostics;
using System.Globalization;
using System.Text;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;
using Millrace.Protocols.Cgi;

namespace Millrace.Tests.Exchanges;

public sealed class HeaderTableTests
{
    [Fact]
    public void A_field_of_no_value_is_added_to_nothing_be_there_one_of_its_name_or_not()
    {
        HeaderTable table = Filled(1);
        table.Add(Name(0), StringValues.Empty);
        table.Add(Name(1), StringValues.Empty);
        Assert.Equal("v0", Assert.Single(table).Value);
    }

    [Theory]
    [InlineData(HeaderTable.ShortMax)]
    [InlineData(HeaderTable.ShortMax + 1)]
    [InlineData(500)]
    public void Fields_are_found_replaced_and_removed_in_any_case(int count)
    {
        HeaderTable table = Filled(count);
        Assert.Equal(count, table.Count);
        for (int i = 0; i < count; i++)
        {
            Assert.Equal($"v{i}", table[Name(i).ToLowerInvariant()]);
        }

        Assert.False(table.ContainsKey(Name(count)));
        table[Name(0)] = "other";
        Assert.True(table.Remove(Name(count / 2).ToUpperInvariant()));
        Assert.False(table.Remove(Name(count / 2)));
        Assert.Equal("other", table[Name(0)]);
        Assert.Equal($"v{count - 1}", table[Name(count - 1)]);
        Assert.Equal(count - 1, table.Count);
        table[Name(count / 2)] = "again";
        Assert.Equal(Name(count / 2), table.Keys.Last());
        table.Clear();
        Assert.Empty(table);
        Assert.Equal(StringValues.Empty, table[Name(0)]);
    }

    [Fact]
    public void Names_of_one_length_and_beginning_cost_no_more_each_than_a_quarter_of_them()
    {
        Assert.InRange(Measure(4_000) / Measure(1_000), 0, 9);     // 4 where each costs the same, 16 where each is compared with all others
    }

    private static double Measure(int count)
    {
        double best = double.MaxValue;
        for (int i = 0; i < 15; i++)
        {
            long begun = Stopwatch.GetTimestamp();
            _ = Filled(count);
            best = Math.Min(best, Stopwatch.GetElapsedTime(begun).TotalMicroseconds);
        }

        return best;
    }

    [Fact]
    public void Fields_of_a_request_are_all_there_for_every_thread_that_looks_first()
    {
        const int Rounds = 2_000;
        byte[] text = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, 100).Select(static i => string.Create(CultureInfo.InvariantCulture, $"X-{i:D3}v{i:D3}"))));
        var head = new RequestHead { Buffer = text };
        Span<HeaderSlice> fields = head.ReserveFields(100);
        for (int i = 0; i < 100; i++)
        {
            fields[i] = new HeaderSlice { NameStart = i * 9, NameLength = 5, ValueStart = (i * 9) + 5, ValueLength = 4 };
        }

        var headers = new RequestHeaders(head);
        int missing = 0;
        int began = 0;
        int looked = 0;
        Thread[] threads = [.. Enumerable.Range(0, 2).Select(_ => new Thread(() =>
        {
            for (int round = 1; round <= Rounds; round++)
            {
                SpinWait.SpinUntil(() => Volatile.Read(ref began) >= round);
                if (headers["X-099"] != "v099" || headers.Count != 100)
                {
                    Interlocked.Increment(ref missing);
                }

                Interlocked.Increment(ref looked);
            }
        }))];
        Array.ForEach(threads, static thread => thread.Start());
        for (int round = 1; round <= Rounds; round++)
        {
            headers.Begin();
            Volatile.Write(ref began, round);
            SpinWait.SpinUntil(() => Volatile.Read(ref looked) == round * 2);
        }

        Array.ForEach(threads, static thread => thread.Join());
        Assert.Equal(0, missing);
    }

    // What did not come is told without reading what did.
    [Theory]
    [InlineData(false, "Host", "x-user", "X-USER", "User-Agent", "-Odd", "Cookie")]
    [InlineData(true, "HOST", "X_USER", "USER_AGENT", "_ODD", "COOKIE")]
    [InlineData(false, "Host", "HOST")]
    [InlineData(true, "Most", "HOST", "ACCEPT")]
    [InlineData(true)]
    [InlineData(false)]
    public void A_field_looked_for_first_is_there_or_not_as_when_all_have_been_read(bool isFastCgi, params string[] names)
    {
        RequestHead head = Head(names);
        head.IsFastCgi = isFastCgi;
        if (isFastCgi)
        {
            head.ContentLength = 7;
            head.ContentType = new Slice(0, 1);
            head.Host = names is ["HOST", ..] ? new Slice(0, 4) : default;
            head.ServerName = names.Length > 0 ? new Slice(0, 4) : default;      // what the host is called where the field is empty
        }

        head.HasHostInTargetOnly = names.Length == 0;
        var headers = new RequestHeaders(head);
        foreach (string name in (string[])[
            "Host", "host", "Most", "X-User", "x-user", "X-Uses", "Y-User", "X_User", "user-agent", "tracestate", "Connection", "-Odd", "_Odd", "Content-Type", "content-length",
            "traceparent", "Cookie", "\u212Aookie", "\u017Fost", "x"])
        {
            headers.Begin();
            int all = headers.Count;      // reads them
            (StringValues value, bool isThere) = (headers[name], headers.TryGetValue(name, out StringValues same));
            Assert.Equal(value, same);
            headers.Begin();
            Assert.Equal(value, headers[name]);
            headers.Begin();
            Assert.Equal(isThere, headers.ContainsKey(name));
            headers.Begin();
            Assert.Equal(isThere, headers.TryGetValue(name, out same));
            Assert.Equal(value, same);
            Assert.Equal(all, headers.Count);
        }
    }

    private static RequestHead Head(string[] names)
    {
        var head = new RequestHead { Buffer = Encoding.ASCII.GetBytes(string.Concat(names.Select(static name => name + "=v")) + "the type") };
        Span<HeaderSlice> fields = head.ReserveFields(names.Length);
        int at = 0;
        for (int i = 0; i < names.Length; i++)
        {
            fields[i] = new HeaderSlice(at, names[i].Length, at + names[i].Length, 2);
            at += names[i].Length + 2;
        }

        return head;
    }

    private static HeaderTable Filled(int count)
    {
        var table = new HeaderTable();
        for (int i = 0; i < count; i++)
        {
            table[Name(i)] = $"v{i}";
        }

        return table;
    }

    private static string Name(int i) => string.Create(CultureInfo.InvariantCulture, $"X-The-Same-Beginning-Of-All-{i:D6}");
}
