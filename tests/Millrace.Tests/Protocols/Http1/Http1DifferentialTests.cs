// The fast readers against the plain ones, and against themselves cut elsewhere, on spoiled requests.

using Millrace.Protocols.Http1;
using Millrace.Tests.Protocols.Fuzz;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1DifferentialTests
{
    [Fact]
    public void Fast_and_plain_readers_agree_on_spoiled_requests_wherever_they_are_cut() => FuzzRun.Short(static seed => new SpoiledRequests(seed));

    [Fact]
    [Trait("Category", FuzzRun.Category)]
    public void Fast_and_plain_readers_agree_on_spoiled_requests_in_the_long_run() => FuzzRun.Long(static seed => new SpoiledRequests(seed));

    private sealed class SpoiledRequests(int seed) : FuzzTarget
    {
        private readonly Http1Mutator _mutator = new(seed);
        private readonly MessageReading _reader = new();
        private Http1Limits _limits;

        public override byte[] Next(int index)
        {
            _limits = index % 8 == 0 ? new Http1Limits { RequestLineMax = 40, HeaderBytesMax = 120, HeaderCountMax = 4 } : new Http1Limits();
            return _mutator.Next();
        }

        public override bool Judge(byte[] bytes)
        {
            List<int> cuts = _mutator.Cuts(bytes.Length);
            Reading whole = _reader.Read(bytes, _limits, []);
            Reading plain = MessageReading.ReadPlainly(bytes, _limits);
            Assert.True(whole.Status == plain.Status && whole.Facts.SequenceEqual(plain.Facts), $"fast: {whole}\nplain: {plain}");
            Reading cut = _reader.Read(bytes, _limits, cuts);
            Assert.True(whole.ToString() == cut.ToString(), $"cut at {string.Join(',', cuts)}: {cut}\nwhole: {whole}");
            return whole.Status == 200;
        }
    }
}
