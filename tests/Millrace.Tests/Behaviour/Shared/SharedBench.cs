// The bench over any of the four ways.

using System.Net;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

internal sealed class SharedBench : Bench
{
    private SharedBench(Way way, RequestHandler handler, MillraceOptions? options, string address)
        : base(handler, options, address) => IsHttp = way is Way.HttpToPlain or Way.HttpToHosted;

    public bool IsHttp { get; }

    public static void Run(Way way, Func<Call, ValueTask> handler, Action<SharedBench> test, Action<MillraceOptions>? options = null, string parameters = "", string place = "127.0.0.1:9000") =>
        SimulationThread.Run(() => Make(way, handler, options, place + parameters).RunToEnd(test));

    private static SharedBench Make(Way way, Func<Call, ValueTask> handler, Action<MillraceOptions>? options, string place)
    {
        RequestHandler face = way is Way.FastCgiToPlain or Way.HttpToPlain ? HandlerFaces.Plain(handler) : HandlerFaces.Hosted(handler);
        string scheme = way is Way.HttpToPlain or Way.HttpToHosted ? "http" : "fastcgi";
        return new SharedBench(way, face, Options(options), $"{scheme}://{place}");
    }

    private void RunToEnd(Action<SharedBench> test)
    {
        test(this);
        End();
    }

    // ---- doing things ----

    public Caller Connect(IPAddress? from = null) => IsHttp
        ? new HttpCaller(Connect(static socket => new HttpPeer(socket), from))
        : new FastCgiCaller(Connect(static socket => new FrontEnd(socket), from));

    /// <summary>Waits in the queue, with a request or without; the server has not been on.</summary>
    public Caller ConnectOnly(string? target = null, IPAddress? from = null)
    {
        Caller caller = IsHttp
            ? new HttpCaller(ConnectOnly(static socket => new HttpPeer(socket), from))
            : new FastCgiCaller(ConnectOnly(static socket => new FrontEnd(socket), from));
        if (target is not null)
        {
            caller.Socket.ClientSend(caller.Request(target));
            caller.Socket.Deliver(int.MaxValue);
        }

        return caller;
    }

    public void Send(Caller caller, byte[] bytes) => Send(caller.End, bytes);

    /// <summary>The same bytes whole, cut in two at every place, and one by one, each time on a connection of its own.</summary>
    public void HoweverCut(Func<Caller, byte[]> bytes, Action<Caller> check)
    {
        int length = bytes(Connect()).Length;
        foreach (int cut in Cuts(length, most: 200))
        {
            Caller caller = Connect();
            SendCut(caller.End, bytes(caller), cut);
            check(caller);
            Leave(caller);
        }
    }

    /// <summary>Everybody closes.</summary>
    public void LeaveAll()
    {
        ForEachClient(static client => client.Socket.ClientClose());
        Settle();
    }

    private void Leave(Caller caller)
    {
        caller.Socket.ClientClose();
        Settle();
        Forget(caller.End);
    }

    /// <summary>Sends the end of a request, or all of it, and gives its response.</summary>
    public Answer Ask(Caller caller, byte[] request)
    {
        int before = caller.Answers.Count;
        Send(caller, request);
        Assert.Equal(before + 1, caller.Answers.Count);
        return caller.Answers[^1];
    }

    public Answer Get(Caller caller, string target, params (string Name, string Value)[] fields) => Ask(caller, caller.Request(target, fields: fields));

    public Answer Get(string target, params (string Name, string Value)[] fields) => Get(Connect(), target, fields);

    /// <summary>The connection is as good as new: the handler is asked, whatever it answers.</summary>
    public void StillServes(Caller caller)
    {
        int before = Simulation.Handler.Started;
        _ = Get(caller, "/still");
        Assert.Equal(before + 1, Simulation.Handler.Started);
    }

    public void OthersAreServed() => StillServes(Connect());
}
