// The buffers a driver lends to one request after the other, as exchanges see them. What outlives its turn takes what it needs of them.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class DriverBuffers(ExchangeServices services)
{
    private byte[]? _input = BufferPool.Rent(BufferPool.InputSize);
    private OutputBuffer? _output = FullOutput(new OutputBuffer());

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
