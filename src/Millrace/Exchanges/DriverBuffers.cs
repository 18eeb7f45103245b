// The buffers a driver lends to one request after the other, as exchanges see them, and its spare exchanges. What outlives its turn takes what it needs of them, and comes back to the thread that it
// has ended on: what is warm there is used there, and no two threads touch it in turn.

using System.Numerics;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class DriverBuffers(ExchangeServices services)
{
    private const int SpareMax = 32;
    private const int ScratchMax = 64 * 1024;

    [ThreadStatic]
    private static DriverBuffers? t_ofThread;

    private readonly Stack<Exchange> _spare = new(SpareMax);
    private readonly LocalSpares _buffers = new();      // made with it: where it is needed nobody could be told that there is no memory
    private bool _isDriving;
    private byte[]? _scratch;
    private int _shown;         // bytes of it that may hold something
    private Exchange? _shownTo;
    private long _shownTicket;
    private byte[]? _input = BufferPool.Rent(BufferPool.InputSize);
    private OutputBuffer? _output = FullOutput(new OutputBuffer());

    public Exchange RentExchange() => _spare.TryPop(out Exchange? exchange) ? exchange : services.RentExchange();

    public void Return(Exchange exchange)
    {
        if (!TryKeep(exchange))
        {
            services.Return(exchange);
        }
    }

    /// <summary>Keeps what has ended on a thread that drives a loop of its server. False: it has not, or there are enough.</summary>
    public static bool TryKeepHere(Exchange exchange) => t_ofThread is { } its && its.IsOf(exchange.Services) && its.TryKeep(exchange);

    /// <summary>The calling thread is the one it goes with.</summary>
    protected void BeginBuffers() => t_ofThread = this;

    /// <summary>It drives a loop: requests begin here, and spares are used here again.</summary>
    public void BeginDriving()
    {
        _isDriving = true;
        BufferPool.BeginThread(_buffers);
    }

    /// <summary>It drives none any more, and may stand by, or run single handlers, for long: what it has kept is everybody's.</summary>
    public void EndDriving()
    {
        _isDriving = false;
        BufferPool.EndThread();
        while (_spare.TryPop(out Exchange? exchange))
        {
            services.Return(exchange);
        }
    }

    private bool IsOf(ExchangeServices its) => services == its;

    private bool TryKeep(Exchange exchange)
    {
        if (!_isDriving || _spare.Count == SpareMax)
        {
            return false;
        }

        _spare.Push(exchange);
        return true;
    }

    /// <summary>Where bytes are received and parsed in place.</summary>
    public byte[] Input => _input ??= BufferPool.Rent(BufferPool.InputSize);

    /// <summary>Where responses are built.</summary>
    public OutputBuffer Output => _output ??= FullOutput(services.RentOutput());

    /// <summary>Nothing of what has been built is sent.</summary>
    public void ClearOutput() => _output?.Clear();

    // ---- what an application is given to fill ----

    /// <summary>So many bytes of memory that an application may use on this thread within its handler's synchronous part: zeros, or what it has written there itself. Null: there are none.</summary>
    public static byte[]? ShowHere(Exchange exchange, int size) => size <= ScratchMax && t_ofThread is { } its && its.IsOf(exchange.Services) ? its.Show(exchange, size) : null;

    private byte[] Show(Exchange exchange, int size)
    {
        if (_shownTo != exchange || _shownTicket != exchange.Ticket)
        {
            _scratch.AsSpan(0, _shown).Clear();
            (_shownTo, _shownTicket, _shown) = (exchange, exchange.Ticket, 0);
        }

        if (_scratch is null || _scratch.Length < size)
        {
            _scratch = new byte[BitOperations.RoundUpToPowerOf2((uint)size)];       // the application may have the one before yet
            _shown = 0;
        }

        _shown = Math.Max(_shown, size);
        return _scratch;
    }

    /// <summary>The handler's synchronous part is over, and with it every span of the scratch. What it has written there, and will say so later, stays with it.</summary>
    public void EndShowing(Exchange exchange)
    {
        if (_scratch is { } scratch && exchange.Answer.IsReservedIn(scratch))
        {
            _scratch = null;
            _shown = 0;
        }
    }

    // Who takes another finds out that there is no memory for it: the next request, and not the one that these go with.

    /// <summary>Somebody is still looking at the input: the driver takes another.</summary>
    public byte[] GiveInputAway()
    {
        byte[] given = Input;
        _input = null;
        return given;
    }

    /// <summary>The output stays with a connection whose peer does not read, or with an exchange that is writing to it.</summary>
    public OutputBuffer GiveOutputAway()
    {
        OutputBuffer given = Output;
        _output = null;
        return given;
    }

    // What is built in it is seldom so short that it need not grow, and it stays with the driver.
    private static OutputBuffer FullOutput(OutputBuffer output)
    {
        _ = output.Reserve(OutputBuffer.FullSize);
        return output;
    }
}
