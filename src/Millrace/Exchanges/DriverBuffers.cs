// The buffers a driver lends to one request after the other, as exchanges see them. What outlives its turn takes what it needs of them.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class DriverBuffers(ExchangeServices services)
{
    /// <summary>Where bytes are received and parsed in place.</summary>
    public byte[] Input { get; private set; } = BufferPool.Rent(BufferPool.InputSize);

    /// <summary>Where responses are built.</summary>
    public OutputBuffer Output { get; private set; } = FullOutput(new OutputBuffer());

    /// <summary>Somebody is still looking at the input: the driver takes another.</summary>
    public byte[] GiveInputAway()
    {
        byte[] given = Input;
        Input = BufferPool.Rent(BufferPool.InputSize);
        return given;
    }

    /// <summary>The output stays with a connection whose peer does not read, or with an exchange that is writing to it.</summary>
    public OutputBuffer GiveOutputAway()
    {
        OutputBuffer given = Output;
        Output = FullOutput(services.RentOutput());
        return given;
    }

    // What is built in it is seldom so short that it need not grow, and it stays with the driver.
    private static OutputBuffer FullOutput(OutputBuffer output)
    {
        _ = output.Reserve(OutputBuffer.FullSize);
        return output;
    }
}
