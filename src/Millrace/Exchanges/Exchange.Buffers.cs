// What an exchange holds of the memory of its server. As long as it does not outlive its turn: nothing, it uses its driver's buffers.
//
//   its handler goes on       the bytes of the head are copied, and the driver keeps its input; what has been written and not sent is
//                             copied, and the driver keeps its output
//   while it waits            the copy of its head, and what it has written and not sent: an output that has left keeps no memory
//
// All of that while the handler is running on another thread. Who looks at the head does so within a use (Uses.cs), who writes
// within the gate (ResponseGate.cs): where one is at work just now, or there is no memory for a copy, the driver's buffer goes with the exchange instead.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private const int LookersSpins = 16;
    private const int CopiedMax = 2048;     // of what has been written and not sent

    private OutputBuffer? _output;
    private byte[]? _ownInput;
    private byte[]? _assembly;
    private bool _ownsOutput;
    private OutputBuffer? _spareOutput;     // without memory

    /// <summary>Where the response is built: the driver's, or the exchange's own once it has outlived its turn.</summary>
    public OutputBuffer Output => _output!;

    /// <summary>The same for whoever may come behind the end of the response: null where what was left of it has gone with the connection.</summary>
    public OutputBuffer? OutputIfAny => _output;

    /// <summary>Bytes of memory for the head and for the response that are this exchange's alone.</summary>
    public int BytesHeld =>
        (_ownInput?.Length ?? 0) + (_assembly?.Length ?? 0) + Head.BytesHeld + (_ownsOutput ? Output.Bytes.Length : 0) + Answer.BytesHeld;

    /// <summary>The exchange outlives its turn: what it needs of the driver's buffers goes with it.</summary>
    /// <param name="driver">Whose buffers it has used.</param>
    /// <param name="isInputShared">The loop, which is another driver's, may be copying what lies behind the head.</param>
    public void TakeBuffers(DriverBuffers driver, bool isInputShared = false)
    {
        if (_ownsOutput)
        {
            return;     // it has waited for its turn
        }

        if (isInputShared || !TryMoveHead())
        {
            _ownInput = driver.GiveInputAway();
        }

        if (!TryMoveOutput())
        {
            _output = driver.GiveOutputAway();
            _ownsOutput = true;
        }
    }

    // Whoever begins to look from here on finds the copy. Uses that have begun before are over in a moment.
    private bool TryMoveHead()
    {
        if (_assembly is not null)
        {
            return true;    // it has bytes of its own
        }

        if (!Head.TryMoveOut())
        {
            return false;
        }

        Interlocked.MemoryBarrier();
        for (int i = 0; _uses.Any; i++)
        {
            if (i == LookersSpins)
            {
                return false;
            }

            Thread.SpinWait(8);
        }

        return true;
    }

    private bool TryMoveOutput()
    {
        long ticket = Ticket;
        if (!Gate.TryEnterAtOnce(ticket))
        {
            return false;
        }

        try
        {
            using (Sending.Hold())
            {
                OutputBuffer output = Output;
                if (Answer.IsReservedInPlace || IsSentInPart(output) || output.Length > CopiedMax || Services.TryTake(ref _spareOutput, output.Length) is not { } own)
                {
                    return false;
                }

                Sender.MoveDeferred(output.Start);
                own.TakeAll(output);
                _output = own;
                _ownsOutput = true;
            }
        }
        finally
        {
            Gate.Exit(ticket);
        }

        return true;
    }

    // Where its records or chunks begin is no longer to be seen in the rest.
    private static bool IsSentInPart(OutputBuffer output) => output.Start > 0 && !output.IsEmpty;

    /// <summary>Under the send lock, with nobody writing: all of it has left.</summary>
    public void ReleaseOutput()
    {
        if (_ownsOutput && !Answer.IsReservedInPlace)
        {
            Output.Release();
        }
    }

    /// <summary>The same on the loop, where nobody is writing just now.</summary>
    public void ReleaseOutputUnlessWritten()
    {
        long ticket = Ticket;
        if (_ownsOutput && Output.HasIdleMemory && Gate.TryEnterAtOnce(ticket))
        {
            ReleaseOutput();
            Gate.Exit(ticket);
        }
    }

    /// <summary>Takes what has not been sent, which goes with the connection, out of the exchange; null where that is nothing, or in the driver's output.</summary>
    public OutputBuffer? TakeUnsent()
    {
        if (!_ownsOutput)
        {
            return null;
        }

        using SteadyLock.Holder held = Sending.Hold();      // whoever aborts the request on another thread may be looking at it; from here on it is somebody else's
        OutputBuffer output = Output;
        _output = null;
        _ownsOutput = false;
        if (!output.IsEmpty)
        {
            return output;
        }

        if (_spareOutput is not null)
        {
            Services.Return(output);
            return null;
        }

        output.Clear();
        output.Release();
        _spareOutput = output;
        return null;
    }

    private void ResetBuffers()
    {
        if (_ownInput is { } input)
        {
            BufferPool.Return(input);
            _ownInput = null;
        }

        if (_assembly is { } assembly)
        {
            BufferPool.Return(assembly);
            _assembly = null;
        }

        TakeUnsent();
    }
}
