// One spoiled connection, drawn from its number.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal readonly ref struct SpoiledCase
{
    [ThreadStatic]
    private static Maker? t_maker;

    public SpoiledCase(ulong number)
    {
        Maker maker = t_maker ??= new Maker();
        maker.Make(number);
        IsHttp = maker.IsHttp;
        Bytes = maker.Buffer.Span;
        Cuts = maker.Cuts.AsSpan(0, maker.CutCount);
        End = maker.End;
    }

    public bool IsHttp { get; }

    /// <summary>Valid until the next case is made on this thread.</summary>
    public ReadOnlySpan<byte> Bytes { get; }

    /// <summary>Where they are cut on their way, rising.</summary>
    public ReadOnlySpan<int> Cuts { get; }

    public CaseEnd End { get; }

    private sealed class Maker
    {
        private readonly SeededRandom _random = new(0);
        private readonly FastCgiSpoiler _fastCgi;
        private readonly HttpSpoiler _http;

        public Maker()
        {
            Buffer = new CaseBuffer(_random);
            _fastCgi = new FastCgiSpoiler(_random, Buffer);
            _http = new HttpSpoiler(_random, Buffer);
        }

        public CaseBuffer Buffer { get; }

        public bool IsHttp { get; private set; }

        public int[] Cuts { get; } = new int[4];

        public int CutCount { get; private set; }

        public CaseEnd End { get; private set; }

        public void Make(ulong number)
        {
            _random.Restart(number * 0x2545_F491_4F6C_DD1D);
            Buffer.Clear();
            IsHttp = _random.Chance(50);
            if (IsHttp)
            {
                _http.Make();
            }
            else
            {
                _fastCgi.Make();
            }

            CutCount = _random.Chance(60) ? 0 : _random.Between(1, Cuts.Length);
            for (int i = 0; i < CutCount; i++)
            {
                Cuts[i] = _random.Below(Buffer.Count + 1);
            }

            Cuts.AsSpan(0, CutCount).Sort();
            End = _random.Below(64) switch { 0 => CaseEnd.Silence, < 20 => CaseEnd.Finish, _ => CaseEnd.Reset };
        }
    }
}
