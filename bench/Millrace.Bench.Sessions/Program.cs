// Which sessions survive a flood: docs/sessions.md has the figures, and bench/run sessions calls this.
//
//   policies [FILE.svg]   the policies beside each other, in simulated time, with the code of the real store, and a chart of them
//   costs                 what a session costs a request
//   serve KIND URL        an application with sessions: stock, lru or millrace
//   flood KIND ADDRESS    visitors and a flood against it, over sockets

using Millrace.Bench.Sessions;

switch (args)
{
    case ["policies"]:
        PolicyTable.Print(chart: null);
        return 0;
    case ["policies", string chart]:
        PolicyTable.Print(chart);
        return 0;
    case ["costs"]:
        Costs.Print();
        return 0;
    case ["serve", string kind, string url]:
        await SessionApp.RunAsync(kind, url);
        return 0;
    case ["flood", string kind, string address, string process, string requests]:
        await SocketFlood.RunAsync(kind, address, int.Parse(process, null), int.Parse(requests, null));
        return 0;
    default:
        Console.Error.WriteLine("policies [FILE.svg] | costs | serve stock|lru|millrace URL | flood none|once|many|old ADDRESS PID REQUESTS");
        return 2;
}
