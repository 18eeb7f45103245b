// The feature that says by whom a request was sent: over FastCGI what the front server reports, else the two ends of the socket.

using System.Net;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal abstract partial class RequestFeatures : IHttpConnectionFeature
{
    private protected sealed record Addresses
    {
        public IPAddress? Remote { get; set; }

        public IPAddress? Local { get; set; }

        public int RemotePort { get; set; }

        public int LocalPort { get; set; }
    }

    string IHttpConnectionFeature.ConnectionId
    {
        get
        {
            using ExchangeUse use = Use();
            return Rare.ConnectionId ??= Exchange.Connection.Id;
        }

        set
        {
            Check();
            Rare.ConnectionId = value;
        }
    }

    IPAddress? IHttpConnectionFeature.RemoteIpAddress
    {
        get => FindAddresses().Remote;
        set => FindAddresses().Remote = value;
    }

    IPAddress? IHttpConnectionFeature.LocalIpAddress
    {
        get => FindAddresses().Local;
        set => FindAddresses().Local = value;
    }

    int IHttpConnectionFeature.RemotePort
    {
        get => FindAddresses().RemotePort;
        set => FindAddresses().RemotePort = value;
    }

    int IHttpConnectionFeature.LocalPort
    {
        get => FindAddresses().LocalPort;
        set => FindAddresses().LocalPort = value;
    }

    /// <summary>The ends of the connection's socket, which are not the caller's to change. False: a front server says who is there, or somebody has asked for a copy and may have said otherwise.</summary>
    internal bool TryGetEnds(out IPEndPoint? remote, out IPEndPoint? local)
    {
        using ExchangeUse use = Use();
        if (Head.IsFastCgi || _rarity?.Addresses is not null)
        {
            (remote, local) = (null, null);
            return false;
        }

        (remote, local) = (Exchange.Connection.RemoteEndPoint, Exchange.Connection.LocalEndPoint);
        return true;
    }

    private Addresses FindAddresses()
    {
        using ExchangeUse use = Use();
        return Rare.Addresses ??= Head.IsFastCgi
            ? Reported(Head.RemoteIPAddress, Head.RemotePortNumber, Head.LocalIPAddress, Head.LocalPortNumber)
            : OfSocket(Exchange.Connection.RemoteEndPoint, Exchange.Connection.LocalEndPoint);
    }

    private static Addresses Reported(IPAddress? remote, int remotePort, IPAddress? local, int localPort) =>
        new() { Remote = remote, RemotePort = remote is null ? 0 : remotePort, Local = local, LocalPort = local is null ? 0 : localPort };

    private static Addresses OfSocket(IPEndPoint? remote, IPEndPoint? local) =>
        new() { Remote = OwnAddress.Of(remote?.Address), RemotePort = remote?.Port ?? 0, Local = OwnAddress.Of(local?.Address), LocalPort = local?.Port ?? 0 };
}
