// What is said on a connection behind a switch of protocols: bytes both ways, each to its own end. A client that has said all it has to say (half-close, RFC 9293 §3.6) still
// hears what the application says; the application's end is that of both, since none of them can end half of it. Who leaves takes the other side with it.

using System.Net.Sockets;

namespace Millrace.Connector;

internal static class Tunnel
{
    private enum Outcome
    {
        /// <summary>All there was has been passed on.</summary>
        Ended,

        /// <summary>Whoever spoke has gone.</summary>
        SpeakerGone,

        /// <summary>Whoever was spoken to has gone; what it has said before may still be on its way.</summary>
        HearerGone,
    }

    /// <summary>Ends when there is nothing left to carry.</summary>
    /// <param name="ours">The client's side. It is not asked whether it has left (RequestAborted): that is said of one that has ended its half as well.</param>
    /// <param name="theirs">The application's.</param>
    /// <param name="link">The connection of <paramref name="theirs"/>; null where it is not known.</param>
    /// <param name="lost">Fires when the client neither says nor hears anything any more: what waits for an application that takes nothing finds that out in no other way.</param>
    public static async Task CarryAsync(Stream ours, Stream theirs, TunnelLink? link, CancellationToken lost)
    {
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(lost);
        Task<Outcome> asked = CarryAsync(ours, theirs, ending.Token);
        Task<Outcome> answered = CarryAsync(theirs, ours, ending.Token);
        if (await Task.WhenAny(asked, answered).ConfigureAwait(false) == asked)
        {
            switch (await asked.ConfigureAwait(false))
            {
                case Outcome.Ended when link?.TryEndSending() == true:
                case Outcome.HearerGone:
                    _ = await answered.ConfigureAwait(false);
                    break;
            }
        }
        await ending.CancelAsync().ConfigureAwait(false);
        await theirs.DisposeAsync().ConfigureAwait(false);
        await Task.WhenAll(asked, answered).ConfigureAwait(false);
    }

    private static async Task<Outcome> CarryAsync(Stream from, Stream to, CancellationToken ct)
    {
        byte[] buffer = new byte[8 * 1024];
        var turns = default(Turns);
        var gone = Outcome.SpeakerGone;
        try
        {
            int count;
            while ((count = await from.ReadAsync(buffer, ct).ConfigureAwait(false)) > 0)
            {
                gone = Outcome.HearerGone;
                await to.WriteAsync(buffer.AsMemory(0, count), ct).ConfigureAwait(false);
                await to.FlushAsync(ct).ConfigureAwait(false);
                gone = Outcome.SpeakerGone;
                if (turns.IsOver)
                {
                    await Turns.LetOthers();
                }
            }
            return Outcome.Ended;
        }
        catch (Exception error) when (error is IOException or OperationCanceledException or ObjectDisposedException or SocketException)
        {
            return gone;
        }
    }
}

/// <summary>A connection to an application whose sending side can be ended alone, which the stream of an HttpClient cannot say.</summary>
internal sealed class TunnelLink(Socket socket) : NetworkStream(socket, ownsSocket: true)
{
    private static readonly AsyncLocal<Asking?> s_asking = new();

    /// <summary>Which connection a request has gone over: an HttpClient does not tell, but writes where it was asked to send.</summary>
    internal sealed class Asking
    {
        /// <summary>The last one.</summary>
        public TunnelLink? Link { get; set; }
    }

    /// <summary>For the one request that the caller sends next, in an asynchronous method of its own.</summary>
    public static Asking BeginToAsk() => s_asking.Value = new Asking();

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (s_asking.Value is { } asking)
        {
            asking.Link = this;
        }
        return base.WriteAsync(buffer, cancellationToken);
    }

    /// <summary>The application reads to the end of what has been sent. False: it has gone.</summary>
    public bool TryEndSending()
    {
        try
        {
            Socket.Shutdown(SocketShutdown.Send);
            return true;
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            return false;
        }
    }
}
