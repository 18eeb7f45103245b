// Two processes of a shop behind nginx, whose sessions are in PostgreSQL: one of them is killed while visitors put things into their carts, and then the database goes away for half a minute. The site answers
// all the time, and nobody loses a cart.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;
using Millrace.Sessions.Tests.PostgreSql;

namespace Millrace.Interop.Sessions;

public sealed class SharedSessionTests(Database database) : IClassFixture<Database>, IDisposable
{
    private const int Visitors = 20;
    private static readonly TimeSpan s_phase = TimeSpan.FromSeconds(8);
    private static readonly TimeSpan s_away = TimeSpan.FromSeconds(30);
    private static readonly TimeSpan s_slowestAnswer = TimeSpan.FromSeconds(10);

    private readonly TemporaryDirectory _folder = new("cart", searchable: true);
    private volatile bool _isOver;

    public void Dispose() => _folder.Dispose();

    [Fact]
    [Trait("Category", "Soak")]
    public async Task Nobody_loses_a_cart_when_a_process_is_killed_and_the_database_goes_away()
    {
        string[] sockets = [Path.Combine(_folder.Path, "cart1.sock"), Path.Combine(_folder.Path, "cart2.sock")];
        await using CommandProcess stays = Start(sockets[0]);
        CommandProcess dies = Start(sockets[1]);
        await stays.WaitForOutputAsync("Application started");
        await dies.WaitForOutputAsync("Application started");
        await using FrontEndServer nginx = await FrontEndServer.StartAsync(
            new NginxProgram(), new Upstream(new Combination(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.KeptAlive), [.. sockets.Select(static socket => "fastcgi://unix:" + socket)]));
        Visitor[] visitors = [.. Enumerable.Range(0, Visitors).Select(_ => new Visitor(new Uri($"http://{nginx.Buffered}/")))];
        Task[] visits = [.. visitors.Select(visitor => Task.Run(() => visitor.GoOnAsync(() => _isOver)))];
        await Task.Delay(s_phase);
        Assert.All(visitors, static visitor => Assert.Equal((0, 0), (visitor.Lost, visitor.Away)));

        dies.Signal(CommandProcess.SigKill);
        await dies.WaitForExitAsync();
        await dies.DisposeAsync();
        await Task.Delay(s_phase);
        await using CommandProcess again = Start(sockets[1]);
        await again.WaitForOutputAsync("Application started");
        await Task.Delay(s_phase);
        Assert.All(visitors, static visitor => Assert.InRange(visitor.Lost, 0, 1));     // what was in progress in the process that was killed
        Assert.All(visitors, static visitor => Assert.Equal(0, visitor.Away));

        await database.KillAsync();
        await Task.Delay(s_away);
        int[] before = [.. visitors.Select(static visitor => visitor.Answers)];
        await database.StartAsync();
        await Task.Delay(s_phase);
        _isOver = true;
        await Task.WhenAll(visits);

        Assert.All(visitors, static visitor => Assert.InRange(visitor.Away, 10, int.MaxValue));
        Assert.All(visitors.Zip(before), static pair => Assert.InRange(pair.First.Answers, pair.Second + 10, int.MaxValue));
        Assert.All(visitors, static visitor => Assert.Empty(visitor.Wrong));
        Assert.All(visitors, static visitor => Assert.InRange(visitor.Slowest, TimeSpan.Zero, s_slowestAnswer));
    }

    private CommandProcess Start(string socket) => CommandProcess.Start(
        CommandProcess.AssemblyOf("samples/Cart", "Cart"), "--urls", $"fastcgi://unix:{socket}?mode=666", "--Sessions:PostgreSql", database.ConnectionString, "--Keys", Path.Combine(_folder.Path, "keys"));

    /// <summary>Puts one thing after the other into a cart, and knows how many there must be.</summary>
    private sealed class Visitor(Uri site)
    {
        private int _known;
        private bool _isUnsure;     // whether the last is in it

        public int Answers { get; private set; }

        /// <summary>Times that the cart was not at hand.</summary>
        public int Away { get; private set; }

        /// <summary>Requests without an answer of the shop's.</summary>
        public int Lost { get; private set; }

        public List<string> Wrong { get; } = [];

        public TimeSpan Slowest { get; private set; }

        public async Task GoOnAsync(Func<bool> isOver)
        {
            using var client = new HttpClient(new SocketsHttpHandler { CookieContainer = new CookieContainer(), UseProxy = false }) { BaseAddress = site, Timeout = TimeSpan.FromSeconds(60) };
            while (!isOver())
            {
                var clock = Stopwatch.StartNew();
                using HttpResponseMessage answer = await client.PostAsync("add/flour", null);
                string text = await answer.Content.ReadAsStringAsync();
                Slowest = clock.Elapsed > Slowest ? clock.Elapsed : Slowest;
                Note(answer.StatusCode, text);
                await Task.Delay(50);
            }
        }

        // What was answered just before the end of a process, or of the database, need not have been stored; nor need what was stored have been answered.
        private void Note(HttpStatusCode status, string text)
        {
            switch (status)
            {
                case HttpStatusCode.OK:
                    int count = int.Parse(text, CultureInfo.InvariantCulture);
                    int slack = _isUnsure ? 1 : 0;
                    if (count < _known + 1 - slack || count > _known + 1 + slack)
                    {
                        Wrong.Add($"{count} behind {_known}{(_isUnsure ? ", unsure" : "")}");
                    }
                    (_known, _isUnsure) = (count, false);
                    Answers++;
                    break;
                case HttpStatusCode.ServiceUnavailable when text.StartsWith("Your cart", StringComparison.Ordinal):
                    Away++;
                    _isUnsure = true;
                    break;
                case HttpStatusCode.BadGateway or HttpStatusCode.GatewayTimeout:
                    Lost++;
                    _isUnsure = true;
                    break;
                default:
                    Wrong.Add($"{(int)status} {text}");
                    break;
            }
        }
    }
}
