// The buffers of a driver, where an exchange takes them along.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace.Tests.Exchanges;

public sealed class DriverBuffersTests
{
    // Half given away, a buffer would be built in for two requests at a time.
    [Fact]
    public void To_give_buffers_away_takes_no_memory_and_who_comes_next_has_others()
    {
        using var services = new LoopServices(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));
        var driver = new LoopDriver(services);
        var another = new LoopDriver(services);
        _ = (another.GiveInputAway(), another.GiveOutputAway());     // compiled
        byte[] input = driver.Input;
        Millrace.Exchanges.OutputBuffer output = driver.Output;
        output.Append("response"u8);

        long before = GC.GetAllocatedBytesForCurrentThread();
        byte[] givenInput = driver.GiveInputAway();
        Millrace.Exchanges.OutputBuffer givenOutput = driver.GiveOutputAway();
        long after = GC.GetAllocatedBytesForCurrentThread();

        Assert.Equal(0, after - before);
        Assert.Same(input, givenInput);
        Assert.Same(output, givenOutput);
        driver.ClearOutput();
        Assert.Equal("response"u8, givenOutput.Bytes.AsSpan(0, givenOutput.End));
        Assert.NotSame(input, driver.Input);
        Assert.NotSame(output, driver.Output);
        Assert.True(driver.Output.IsEmpty);
    }
}
