// The buffers a driver lends to one request after the other, as exchanges see them, and its spare exchanges. What outlives its turn takes what it needs of them, and comes back to the thread that it
// has ended on: what is warm there is used there, and no two threads touch it in turn.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class DriverBuffers(ExchangeServices services)
{
    private const int SpareMax = 32;

    [ThreadStatic]
    private static DriverBuffers? t_ofThread;

    private readonly Stack<Exchange> _spare = new();
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

    /// <summary>Keeps what has ended on the thread of a driver of its server. False: it has not, or there are enough.</summary>
    public static bool TryKeepHere(Exchange exchange) => t_ofThread is { } its && its.IsOf(exchange.Services) && its.TryKeep(exchange);

    /// <summary>The calling thread is the one it goes with.</summary>
    protected void KeepSpares() => t_ofThread = this;

    private bool IsOf(ExchangeServices its) => services == its;

    private bool TryKeep(Exchange exchange)
    {
        if (_spare.Count == SpareMax)
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
