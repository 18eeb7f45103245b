// One timer for all requests of a connection: it strikes as late as the last sign of life says, and for nobody else.

using Millrace.Connector;
using Millrace.Tests.Simulation.Children;

namespace Millrace.Tests.Connector;

public sealed class SilenceTimerTests : IDisposable
{
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(60);

    private readonly SimulatedTime _time = new();
    private readonly SilenceTimer _timer;

    public SilenceTimerTests() => _timer = new SilenceTimer(_time);

    public void Dispose() => _timer.Dispose();

    [Fact]
    public void Whose_program_says_nothing_is_told_when_the_time_is_over_and_once()
    {
        Speaker request = Begin(s_limit);
        IsToldIn(60_000, request);
        _time.Pass(200_000);
        Assert.Equal(1, request.Silent);
    }

    [Fact]
    public void A_sign_of_life_gives_all_of_the_time_anew()
    {
        Speaker request = Begin(s_limit);
        _time.Pass(59_000);
        request.Speak();
        IsToldIn(60_000, request);
    }

    [Fact]
    public void Nothing_of_the_time_of_a_request_is_the_next_ones()
    {
        Speaker first = Begin(s_limit);
        _time.Pass(50_000);
        _timer.End();
        _time.Pass(5_000);
        IsToldIn(60_000, Begin(s_limit));
        Assert.Equal(0, first.Silent);
    }

    [Fact]
    public void A_request_of_less_patience_waits_for_no_more_than_its_own()
    {
        _ = Begin(s_limit);
        _timer.End();
        IsToldIn(2_000, Begin(TimeSpan.FromSeconds(2)));
    }

    [Fact]
    public void Behind_a_rest_it_strikes_again()
    {
        _ = Begin(s_limit);
        _timer.End();
        _time.Pass(500_000);
        IsToldIn(60_000, Begin(s_limit));
    }

    [Fact]
    public void What_a_request_has_for_itself_alone_is_not_kept_with_the_connection()
    {
        var its = new AsyncLocal<string> { Value = "the request's" };
        string? seen = "nobody has looked";
        using var timer = new SilenceTimer(TimeProvider.System);
        using var struck = new ManualResetEventSlim();
        timer.Begin(new Speaker(_time, TimeSpan.Zero) { Told = () => { seen = its.Value; struck.Set(); } }, TimeSpan.FromMilliseconds(1));
        Assert.True(struck.Wait(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));
        Assert.Null(seen);
    }

    private void IsToldIn(int milliseconds, Speaker request)
    {
        _time.Pass(milliseconds - 1);
        Assert.Equal(0, request.Silent);
        _time.Pass(1);
        Assert.Equal(1, request.Silent);
    }

    private Speaker Begin(TimeSpan limit)
    {
        var request = new Speaker(_time, limit);
        _timer.Begin(request, limit);
        return request;
    }

    private sealed class Speaker(SimulatedTime time, TimeSpan limit) : ISilent
    {
        private long _lifeAt = time.GetTimestamp();

        public int Silent { get; private set; }

        public Action? Told { get; init; }

        public TimeSpan MaySayNothingFor => limit - time.GetElapsedTime(_lifeAt);

        public void Speak() => _lifeAt = time.GetTimestamp();

        public void FallSilent()
        {
            Silent++;
            Told?.Invoke();
        }
    }
}
