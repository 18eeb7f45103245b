// The instruments of the meter "Millrace": their names, and that they count what happened.

using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Observe;

[Collection(AloneCollection.Name)]
public sealed class MeterTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly MeterListener _listener = new();
    private readonly ConcurrentDictionary<string, Instrument> _instruments = new();
    private readonly ConcurrentDictionary<string, long> _values = new();

    public MeterTests()
    {
        _listener.InstrumentPublished = (instrument, listener) =>
        {
            if (instrument.Meter.Name == "Millrace")
            {
                _instruments[instrument.Name] = instrument;
                listener.EnableMeasurementEvents(instrument);
            }
        };
        _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Take(instrument, value, tags));
        _listener.SetMeasurementEventCallback<int>((instrument, value, tags, _) => Take(instrument, value, tags));
        _listener.Start();
    }

    public void Dispose()
    {
        _listener.Dispose();
        _folder.Dispose();
    }

    [Fact]
    public async Task Every_instrument_is_there_with_a_unit_and_a_description()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (_, _) => { });
        Assert.Equal(
            [
                "millrace.bytes.received", "millrace.bytes.sent", "millrace.connections.accepted", "millrace.connections.open", "millrace.drivers",
                "millrace.drivers.waiting", "millrace.handovers", "millrace.handovers.refused", "millrace.refusals", "millrace.requests",
                "millrace.requests.aborted", "millrace.requests.async", "millrace.requests.queued", "millrace.requests.workers", "millrace.responses",
            ],
            _instruments.Keys.Order(StringComparer.Ordinal));
        Assert.All(_instruments.Values, static instrument => Assert.False(string.IsNullOrEmpty(instrument.Unit) || string.IsNullOrEmpty(instrument.Description)));
    }

    [Fact]
    public async Task Requests_responses_connections_and_bytes_are_counted()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static async (request, response) =>
        {
            if (request.Path == "/later")
            {
                await Task.Delay(5);
            }

            response.StatusCode = request.Path == "/missing" ? 404 : 200;
            response.Write(new byte[1_000]);
        }, new MillraceOptions { Loops = 1 });
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            foreach (string target in (string[])["/", "/missing", "/later", "/", "/later"])
            {
                Assert.True(peer.Exchange(new FastCgiRequest(target)).IsWhole);
            }

            Assert.True(ProcessState.Becomes(() => Read("millrace.requests") == 5));
            Assert.Equal((1, 1), (Read("millrace.connections.accepted"), Read("millrace.connections.open")));
            Assert.True(ProcessState.Becomes(() => Read("millrace.responses", "2xx") == 4), $"{Read("millrace.responses", "2xx")}");
            Assert.Equal(1, Read("millrace.responses", "4xx"));
            Assert.InRange(Read("millrace.bytes.sent"), 5_000, 10_000);
            Assert.InRange(Read("millrace.bytes.received"), 1_000, 10_000);
            Assert.InRange(Read("millrace.drivers"), 1, 20);
        }

        Assert.True(ProcessState.Becomes(() => Read("millrace.connections.open") == 0));
    }

    [Theory]
    [InlineData("fastcgi-version")]
    [InlineData("fastcgi-begin-length")]
    [InlineData("unknown-role")]
    [InlineData("fastcgi-stdin-too-early")]
    [InlineData("ended-mid-request")]
    public async Task What_is_refused_is_counted_by_fault(string fault)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (_, _) => { });
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            byte[] head = new FastCgiRequest("/").Head();
            switch (fault)
            {
                case "fastcgi-version":
                    peer.Send("GET / HTTP/1.1\r\n\r\n"u8);
                    break;
                case "fastcgi-begin-length":
                    peer.Send([1, 1, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
                    break;
                case "unknown-role":
                    head[9] = (byte)Role.Authorizer;
                    peer.Send(head);
                    break;
                case "fastcgi-stdin-too-early":
                    peer.Send([.. head.AsSpan(0, 16), .. new FastCgiRequest("/").EndOfStdin()]);
                    break;
                default:
                    peer.Send(head.AsSpan(0, 40));
                    break;
            }

            if (fault == "ended-mid-request")
            {
                peer.ShutdownSend();
            }

            Assert.True(ProcessState.Becomes(() => Read("millrace.refusals", fault) == 1), string.Join(", ", _values));
        }
    }

    private long Read(string name, string? tag = null)
    {
        _values.Clear();
        _listener.RecordObservableInstruments();
        return _values.GetValueOrDefault(tag is null ? name : $"{name}/{tag}");
    }

    private void Take(Instrument instrument, long value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
    {
        string name = tags.Length > 0 ? $"{instrument.Name}/{tags[0].Value}" : instrument.Name;
        _values.AddOrUpdate(name, value, (_, sum) => sum + value);
    }
}
