// How a write that waits for the peer is given up: by the token that it was called with.

using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    /// <summary>
    /// What waits for the peer, as long as whoever began it wants it. Once it is given up nobody knows how much of the response has
    /// left: the connection is broken off, as by <see cref="AbortByApplication"/>.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ValueTask While(ValueTask written, long ticket, CancellationToken cancellationToken) =>
        written.IsCompletedSuccessfully || !cancellationToken.CanBeCanceled ? written : WaitWhile(written, ticket, cancellationToken);

    private async ValueTask WaitWhile(ValueTask written, long ticket, CancellationToken cancellationToken)
    {
        var patience = new Patience(this, ticket);
        using (cancellationToken.UnsafeRegister(static patience => ((Patience)patience!).End(), patience))
        {
            await written.ConfigureAwait(false);
        }

        if (patience.HasEnded)
        {
            throw new OperationCanceledException(cancellationToken);
        }
    }

    private sealed class Patience(Exchange exchange, long ticket)
    {
        public bool HasEnded { get; private set; }

        public void End()
        {
            HasEnded = true;
            exchange.AbortByApplication(ticket);
        }
    }
}
