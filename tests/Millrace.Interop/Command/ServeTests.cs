// `millrace serve`, end to end: a daemon as a user starts it, an application that goes wrong in each way, and what the others and their visitors
// notice of it.

using System.Globalization;
using System.Net;
using System.Text.Json;
using Millrace.Interop.FrontEnds;
using Millrace.Protocols.FastCgi;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests : IAsyncLifetime
{
    private const int SigCont = 18;
    private const int SigStop = 19;

    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly TemporaryDirectory _directory = new("serve");
    private readonly HttpClient _client = new() { Timeout = Patience };
    private readonly List<CommandProcess> _daemons = [];
    private readonly string _shop = FreeAddress();
    private readonly string _blog = FreeAddress();

    private static string HostKinds => CommandProcess.AssemblyOf("tests/Millrace.Interop.HostKinds", "Millrace.Interop.HostKinds");

    private string File => Path.Combine(_directory.Path, "millrace.json");

    private string Control => Path.Combine(_directory.Path, "run/control.sock");

    private string Socket => Path.Combine(_directory.Path, "shop.sock");

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        foreach (var daemon in _daemons)
        {
            await daemon.DisposeAsync();
        }
        _client.Dispose();
        _directory.Dispose();
    }

    [Fact]
    public async Task Applications_of_a_file_are_served_over_both_protocols_and_end_with_the_daemon()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 2"), App("blog", _blog, """ "environment": { "TITLE": "A blog" } """));
        var daemon = await StartAsync();

        Assert.Equal("A blog", await _client.GetStringAsync(_blog + "/title"));
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal((0, $"fastcgi://unix:{Socket} {_shop}\n", ""), await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket, "/addresses", "--body-only"));
        Assert.Equal("", await _client.GetStringAsync(_shop + "/variables"));
        int[] processes = [.. ProcessesOf("shop", await StatusAsync())];
        Assert.Equal(2, processes.Distinct().Count());

        await EndAsync(daemon, processes);
    }

    [Fact]
    public async Task An_application_that_does_not_start_answers_503_is_tried_again_and_holds_nobody_up()
    {
        Write(App("shop", _shop, """ "environment": { "FAULT": "throws" } """), App("blog", _blog));
        await StartAsync(waitFor: "blog: generation 1 serves");

        await WaitForStatusAsync("shop", "waiting");
        using var answer = await _client.GetAsync(_shop + "/title");
        Assert.Equal((HttpStatusCode.ServiceUnavailable, "5"), (answer.StatusCode, answer.Headers.RetryAfter!.ToString()));
        JsonElement shop = AppOf("shop", await StatusAsync());
        Assert.Matches(@"^Process \d+ |^The process was ended by signal 6 before it listened\.$", shop.GetProperty("reason").GetString()!);
        await WaitForAsync(async () => (await DoAsync("logs", "shop")).Output.Contains("The database is not there.", StringComparison.Ordinal));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_blog + "/health")).StatusCode);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Count(static one => one.GetProperty("what").GetString()!.StartsWith("it did not start", StringComparison.Ordinal)) > 1);
        Assert.Equal(shop.GetProperty("stateSince").GetString(), AppOf("shop", await StatusAsync()).GetProperty("stateSince").GetString());       // each attempt is part of the wait

        Write(App("shop", _shop), App("blog", _blog));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    [Theory]
    [InlineData("throws", "before it listened")]
    [InlineData("ends", "ended with exit code 3 before it listened")]
    [InlineData("ill", "was not ready 10 s after its start (/health answers 500)")]
    public async Task A_generation_that_does_not_come_about_leaves_the_one_before_it_serving(string fault, string reason)
    {
        Write(App("shop", _shop, """ "environment": { "TITLE": "old" } """));
        await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");

        Write(App("shop", _shop, $$""" "environment": { "TITLE": "new", "FAULT": "{{fault}}" } """).Replace("\"start\": \"3s\"", "\"start\": \"10s\"", StringComparison.Ordinal));
        var reload = await DoAsync("reload");

        Assert.Equal(1, reload.ExitCode);
        Assert.Contains(reason, reload.Error, StringComparison.Ordinal);
        Assert.Equal("old", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        JsonElement shop = AppOf("shop", await StatusAsync());
        Assert.Equal(("serving", 1), (shop.GetProperty("state").GetString(), shop.GetProperty("generation").GetInt32()));
        Assert.Contains(reason, shop.GetProperty("reason").GetString(), StringComparison.Ordinal);
    }

    // The process that is put in the place of another is what that one was, and not what could not be deployed.
    [Fact]
    public async Task What_could_not_be_deployed_is_not_put_in_the_place_of_a_crashed_process_and_is_tried_again_by_the_next_reload()
    {
        Write(App("shop", _shop, """ "environment": { "TITLE": "old" } """));
        await StartAsync();
        string flag = Path.Combine(_directory.Path, "ends");
        await System.IO.File.WriteAllTextAsync(flag, "");
        Write(App("shop", _shop, $$""" "environment": { "TITLE": "new", "ENDS_WHILE": "{{flag}}" } """));
        Assert.Equal(1, (await DoAsync("reload")).ExitCode);

        using (var process = System.Diagnostics.Process.GetProcessById(ProcessesOf("shop", await StatusAsync()).Single()))
        {
            process.Kill();
            await process.WaitForExitAsync();
        }
        Assert.Equal("old", await _client.GetStringAsync(_shop + "/title"));

        System.IO.File.Delete(flag);
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal("new", await _client.GetStringAsync(_shop + "/title"));
    }

    // Its channel is taken by somebody who says nothing.
    [Fact]
    public async Task A_process_that_does_not_answer_when_it_is_told_to_listen_is_given_up_when_its_time_to_start_is_over()
    {
        Write(App("shop", _shop, """ "environment": { "TITLE": "old" } """).Replace("60s", "12s", StringComparison.Ordinal));
        await StartAsync();
        var reload = DoAsync("reload", "shop");
        using var silent = await ConnectAsync(Path.Combine(Path.GetDirectoryName(Control)!, "shop-2-1.channel"));

        Assert.Matches(@"^millrace: shop: Process \d+ was told to listen, and has not answered within 12 s\.\n$", (await reload).Error);
        Assert.Equal("old", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
    }

    [Fact]
    public async Task What_is_asked_of_an_application_behind_its_end_opens_nothing_again()
    {
        Write(App("shop", _shop), App("blog", _blog));
        await StartAsync();
        Write(App("blog", _shop));
        var asked = Enumerable.Range(0, 8).Select(i => i == 0 ? DoAsync("reload") : DoAsync(i % 2 == 0 ? "reload" : "hold", "shop")).ToArray();
        await Task.WhenAll(asked);

        await WaitForStatusAsync("blog", "serving");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        await Assert.ThrowsAsync<HttpRequestException>(() => _client.GetAsync(_blog + "/title"));
    }

    [Fact]
    public async Task An_application_that_is_deployed_again_and_again_in_vain_is_tried_once_at_a_time()
    {
        Write(App("shop", _shop, """ "environment": { "FAULT": "ends" } """));
        await StartAsync(waitFor: "shop: it did not start");
        for (int i = 0; i < 5; i++)
        {
            Assert.Equal(1, (await DoAsync("reload", "shop")).ExitCode);
        }
        int tried = await CountAsync();
        await Task.Delay(TimeSpan.FromSeconds(5));      // times of 1 and 2 s, and nothing of the five before
        Assert.InRange(await CountAsync() - tried, 1, 4);

        async Task<int> CountAsync() => AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray().Count(static happened => happened.GetProperty("what").GetString()!.StartsWith("it did not start", StringComparison.Ordinal));
    }

    // A script that deploys and then looks whether what it has deployed is there.
    [Fact]
    public async Task A_deployment_is_answered_when_nobody_comes_to_the_processes_before_it_any_more()
    {
        Write(Patient("old"));
        await StartAsync();
        int old = ProcessesOf("shop", await StatusAsync()).Single();
        Write(Patient("new"));
        Assert.Equal(0, Kill(old, SigStop));        // it accepts as long as it is not told otherwise, and hears of that late
        var reload = DoAsync("reload");
        try
        {
            await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Single() != old);
            await Task.Delay(1_000);
            Assert.False(reload.IsCompleted);
        }
        finally
        {
            Assert.Equal(0, Kill(old, SigCont));
        }

        Assert.Equal(0, (await reload).ExitCode);
        Assert.Equal("new", await _client.GetStringAsync(_shop + "/title"));

        string Patient(string title) => App("shop", _shop, $$""" "environment": { "TITLE": "{{title}}" } """).Replace("\"hang\": \"5s\"", "\"hang\": \"60s\"", StringComparison.Ordinal);
    }

    // A machine that sleeps: nobody could answer meanwhile, and nobody has hung.
    [Fact]
    public async Task A_daemon_that_stood_still_takes_no_application_for_hung()
    {
        Write(App("shop", _shop).Replace("\"hang\": \"5s\"", "\"hang\": \"3s\"", StringComparison.Ordinal));
        var daemon = await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        for (int i = 0; i < 3; i++)
        {
            daemon.Signal(SigStop);
            await Task.Delay(4_000);
            daemon.Signal(SigCont);
            await Task.Delay(200 + (50 * i));
        }

        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        Assert.DoesNotContain("was killed", await StatusAsync(), StringComparison.Ordinal);
    }

    // Whatever an application says to the daemon, without an end or obeyed by terminals.
    [Fact]
    public async Task An_application_that_floods_the_daemon_costs_it_no_memory_and_writes_to_nobodys_terminal()
    {
        Write(App("shop", _shop, """ "environment": { "FAULT": "floods" } """), App("blog", _blog, """ "environment": { "FAULT": "endless" } """).Replace("60s", "3s", StringComparison.Ordinal));
        var daemon = await StartAsync(waitFor: "blog: it did not start");
        await Task.Delay(TimeSpan.FromSeconds(2));
        using (var process = System.Diagnostics.Process.GetProcessById(daemon.Id))
        {
            Assert.InRange(process.WorkingSet64, 0, 512L * 1024 * 1024);
        }
        var logs = await DoAsync("logs", "shop");
        Assert.DoesNotContain('\e', logs.Output);
        Assert.Contains("\uFFFD[31mred", logs.Output, StringComparison.Ordinal);
    }

    // It is healthy at first, and crashes when it is asked again.
    [Fact]
    public async Task A_generation_that_does_not_stay_well_does_not_take_over()
    {
        Write(App("shop", _shop, """ "environment": { "TITLE": "old" } """));
        await StartAsync();

        Write(App("shop", _shop, """ "environment": { "TITLE": "new", "FAULT": "crashes" } """).Replace("100ms", "2s", StringComparison.Ordinal));
        var reloading = DoAsync("reload");
        await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync(), "others").Any());
        var reload = await reloading;

        Assert.Matches(@"^millrace: shop: Process \d+ was ended by signal 6\.\n$", reload.Error);
        Assert.Equal("old", await _client.GetStringAsync(_shop + "/title"));
    }

    // Each connection is kept over all deployments; a close, a refusal or a wrong answer ends the test.
    [Fact]
    public async Task Deployments_under_load_lose_no_request_and_close_no_connection_over_both_protocols()
    {
        const int Deployments = 10;
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 2"));
        await StartAsync();
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 8).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();

        for (int i = 0; i < Deployments; i++)
        {
            Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        }
        await stop.CancelAsync();
        int[] asked = await Task.WhenAll(clients);

        Assert.All(asked, static count => Assert.InRange(count, 10, int.MaxValue));
        Assert.Equal(Deployments + 1, AppOf("shop", await StatusAsync()).GetProperty("generation").GetInt32());
    }

    private async Task<int> AskOverHttpAsync(int client, CancellationToken stop)
    {
        using var socket = new System.Net.Sockets.Socket(System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Tcp);
        await socket.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]), CancellationToken.None);
        await using var stream = new System.Net.Sockets.NetworkStream(socket);
        using var reader = new StreamReader(stream);
        int asked = 0;
        for (; !stop.IsCancellationRequested; asked++)
        {
            string body = $"{client} {asked}";
            await stream.WriteAsync(System.Text.Encoding.ASCII.GetBytes($"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {body.Length}\r\n\r\n{body}"), CancellationToken.None);
            Assert.Equal(body, await ReadAsync(reader, body));
        }
        return asked;
    }

    private async Task<int> AskOverFastCgiAsync(int client, CancellationToken stop)
    {
        using var socket = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
        await socket.ConnectAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(Socket), CancellationToken.None);
        await using var stream = new System.Net.Sockets.NetworkStream(socket);
        int asked = 0;
        for (; !stop.IsCancellationRequested; asked++)
        {
            byte[] body = System.Text.Encoding.ASCII.GetBytes($"{client} {asked}");
            await stream.WriteAsync((byte[])
            [
                .. Record(RecordType.BeginRequest, Begin()),
                .. Record(RecordType.Params, [.. Pair("REQUEST_METHOD", "POST"), .. Pair("REQUEST_URI", "/echo"), .. Pair("SERVER_PROTOCOL", "HTTP/1.1"), .. Pair("HTTP_HOST", "a"), .. Pair("CONTENT_LENGTH", body.Length.ToString(CultureInfo.InvariantCulture))]),
                .. Record(RecordType.Params, []), .. Record(RecordType.Stdin, body), .. Record(RecordType.Stdin, []),
            ], CancellationToken.None);
            List<byte> answer = [];
            for (var header = default(RecordHeader); header.Type != RecordType.EndRequest;)
            {
                byte[] head = new byte[RecordHeader.Size];
                await stream.ReadExactlyAsync(head, CancellationToken.None);
                header = RecordHeader.Read(head);
                byte[] content = new byte[header.ContentLength + header.PaddingLength];
                await stream.ReadExactlyAsync(content, CancellationToken.None);
                answer.AddRange(header.Type == RecordType.Stdout ? content.AsSpan(0, header.ContentLength) : []);
            }
            Assert.EndsWith("\r\n\r\n" + System.Text.Encoding.ASCII.GetString(body), System.Text.Encoding.ASCII.GetString([.. answer]), StringComparison.Ordinal);
        }
        return asked;
    }

    private static byte[] Record(RecordType type, byte[] content)
    {
        byte[] record = new byte[RecordHeader.Size + content.Length];
        RecordHeader.Write(record, type, 1, content.Length, 0);
        content.CopyTo(record, RecordHeader.Size);
        return record;
    }

    private static byte[] Begin()
    {
        byte[] content = new byte[BeginRequest.Size];
        new BeginRequest(Role.Responder, KeepConnection: true).Write(content);
        return content;
    }

    private static byte[] Pair(string name, string value)
    {
        byte[] pair = new byte[NameValuePairs.SizeOf(name.Length, value.Length)];
        _ = NameValuePairs.Write(pair, System.Text.Encoding.ASCII.GetBytes(name), System.Text.Encoding.ASCII.GetBytes(value));
        return pair;
    }

    [Fact]
    public async Task A_process_that_crashes_or_hangs_is_replaced()
    {
        Write(App("shop", _shop));
        await StartAsync();
        int first = int.Parse(await _client.GetStringAsync(_shop + "/process"), CultureInfo.InvariantCulture);

        using (var process = System.Diagnostics.Process.GetProcessById(first))
        {
            process.Kill();
            await process.WaitForExitAsync();
        }
        int second = int.Parse(await _client.GetStringAsync(_shop + "/process"), CultureInfo.InvariantCulture);
        Assert.NotEqual(first, second);

        using var ill = await _client.PostAsync(_shop + "/sicken", null);
        await WaitForAsync(async () => (await StatusAsync()).Contains("was killed: /health was without a right answer for 5 s", StringComparison.Ordinal));
        int third = int.Parse(await _client.GetStringAsync(_shop + "/process"), CultureInfo.InvariantCulture);
        Assert.NotEqual(second, third);
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 2);
        Assert.Equal("serving", AppOf("shop", await StatusAsync()).GetProperty("state").GetString());
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_the_threads_of_a_process_do_that_is_killed_because_it_hangs_is_in_its_output(bool isOtherUser)
    {
        Assert.SkipUnless(!isOtherUser || Environment.UserName == "root", "only root starts processes of another user");
        OpenToAll(_directory.Path);
        Write(App("shop", _shop, isOtherUser ? "\"user\": \"nobody\"" : ""));
        await StartAsync();
        using var kept = await _client.PostAsync(_shop + "/keep-the-book", null);
        await WaitForAsync(async () => (await StatusAsync()).Contains("was killed: /health was without a right answer for 5 s", StringComparison.Ordinal));
        string output = (await DoAsync("logs", "shop", "-n", "500")).Output;
        Assert.Contains("what the threads of process ", output, StringComparison.Ordinal);
        Assert.Contains("    at HostKinds.Served.KeepTheBook()", output, StringComparison.Ordinal);
        Assert.Contains("    at System.Threading.Lock.", output, StringComparison.Ordinal);       // who waits for it
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    [Fact]
    public async Task An_application_that_crashes_again_and_again_is_held_until_it_is_started()
    {
        Write(App("shop", _shop, """ "environment": { "FAULT": "crashes" } """));
        await StartAsync(waitFor: "shop: held");

        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await _client.GetAsync(_shop + "/title")).StatusCode);
        JsonElement shop = AppOf("shop", await StatusAsync());
        Assert.Equal(("held", "5 processes ended within 60 s, the last was ended by signal 6"), (shop.GetProperty("state").GetString(), shop.GetProperty("reason").GetString()));

        Write(App("shop", _shop));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    // A generation that is still being drained has given it away, and the one that was to take it has ended meanwhile.
    [Fact]
    public async Task A_connection_that_moves_while_its_application_is_held_is_answered_503_and_then_by_the_next_generation()
    {
        Write(App("shop", _shop));
        await StartAsync();
        using var socket = new System.Net.Sockets.Socket(System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Tcp);
        await socket.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]), CancellationToken.None);
        await using var stream = new System.Net.Sockets.NetworkStream(socket);
        using var reader = new StreamReader(stream);
        async Task SendAsync(string bytes) => await stream.WriteAsync(System.Text.Encoding.ASCII.GetBytes(bytes), CancellationToken.None);
        await SendAsync("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nsl");
        await Task.Delay(300);      // it must have come before the next generation
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        var holding = DoAsync("hold", "shop");
        await WaitForAsync(async () => (await _client.GetAsync(_shop + "/title")).StatusCode == HttpStatusCode.ServiceUnavailable);
        await SendAsync("ow");
        Assert.Equal("slow", await ReadAsync(reader, "under way"));

        await SendAsync("GET /title HTTP/1.1\r\nHost: a\r\n\r\n");
        Assert.StartsWith("<!DOCTYPE", await ReadAsync(reader, "held", "503 Service Unavailable").WaitAsync(Patience), StringComparison.Ordinal);
        Assert.Equal((0, "shop: held\n", ""), await holding);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("release", "shop"));
        await SendAsync("GET /title HTTP/1.1\r\nHost: a\r\n\r\n");
        Assert.Equal("", await ReadAsync(reader, "released"));
    }

    [Fact]
    public async Task A_changed_file_is_applied_as_a_whole_and_touches_no_application_that_has_not_changed()
    {
        Write(App("shop", _shop), App("blog", _blog, """ "environment": { "TITLE": "1" } """));
        await StartAsync();
        string shop = await _client.GetStringAsync(_shop + "/process");

        Write(App("shop", _shop, "\"heath\": \"/\""), App("blog", _blog, """ "environment": { "TITLE": "2" } """));
        var wrong = await DoAsync("reload");
        Assert.Equal((1, $"millrace: {File}:3:"), (wrong.ExitCode, wrong.Error[..$"millrace: {File}:3:".Length]));
        Assert.Equal("1", await _client.GetStringAsync(_blog + "/title"));

        string wiki = FreeAddress();
        Write(App("shop", _shop), App("blog", wiki, """ "environment": { "TITLE": "2" } """), App("new", _blog));
        Assert.Equal((0, $"{File}: 2 of 3 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal("2", await _client.GetStringAsync(wiki + "/title"));
        Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));
        Assert.Equal(shop, await _client.GetStringAsync(_shop + "/process"));

        Write(App("shop", _shop));
        Assert.Equal((0, $"{File}: 0 of 1 applications deployed, 2 taken away\n", ""), await DoAsync("reload"));
        await Assert.ThrowsAsync<HttpRequestException>(() => _client.GetAsync(_blog + "/title"));
        Assert.Equal(shop, await _client.GetStringAsync(_shop + "/process"));
    }

    [Fact]
    public async Task An_address_that_cannot_be_listened_on_leaves_the_application_on_those_it_has()
    {
        Write(App("shop", _shop), App("blog", _blog));
        await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        using var other = new System.Net.Sockets.TcpListener(IPAddress.Loopback, 0);
        other.Start();
        string taken = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{((IPEndPoint)other.LocalEndpoint).Port}");

        Write(App("shop", $"{_shop};{taken}"), App("blog", _blog, """ "environment": { "TITLE": "2" } """));
        var reload = await DoAsync("reload");

        Assert.Equal(1, reload.ExitCode);
        Assert.StartsWith("millrace: shop: ", reload.Error, StringComparison.Ordinal);
        Assert.Contains(taken["http://".Length..], reload.Error, StringComparison.Ordinal);
        Assert.Equal((process, ""), (await _client.GetStringAsync(_shop + "/process"), await _client.GetStringAsync(_blog + "/title")));

        // What one has here the other can have.
        Write(App("shop", _blog), App("blog", _shop, """ "environment": { "TITLE": "2" } """));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal("2", await _client.GetStringAsync(_shop + "/title"));
    }

    [Fact]
    public async Task What_is_asked_of_a_daemon_in_vain_is_a_sentence()
    {
        var nobody = await DoAsync("status");
        Assert.Equal((7, $"millrace: There is no daemon on {Control}. Start one with `millrace serve FILE`, or name the socket of another with --control PATH.\n"), (nobody.ExitCode, nobody.Error));

        Write(App("shop", _shop));
        await StartAsync();
        Assert.Equal((1, "", "millrace: There is no application 'shoop'. There are: shop.\n"), await DoAsync("reload", "shoop"));
        Assert.Equal((1, "", "millrace: There is no application 'shoop'. There are: shop.\n"), await DoAsync("logs", "shoop"));
        var above = await DoAsync("stop", "..");       // not /stop, which ends the daemon
        Assert.Equal((1, true), (above.ExitCode, above.Error.EndsWith("There is no application of such a name, it has stopped meanwhile, or is none.\n", StringComparison.Ordinal)));

        System.IO.File.WriteAllText(File + ".open", (await System.IO.File.ReadAllTextAsync(File)).Replace("run/control.sock", "/tmp/control.sock", StringComparison.Ordinal));
        var open = await CommandProcess.RunAsync("serve", File + ".open");
        Assert.Equal(1, open.ExitCode);
        Assert.Contains("name one that is not there yet, such as \"control\": \"/run/millrace/control.sock\".", open.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("Remove it", open.Error, StringComparison.Ordinal);

        var second = await CommandProcess.RunAsync("serve", File);
        Assert.Equal(1, second.ExitCode);
        Assert.StartsWith($"millrace: The socket {Control} is owned by process {_daemons[0].Id}", second.Error, StringComparison.Ordinal);
    }

    // The daemon may tell the first host to accept, or the second.
    [Theory]
    [InlineData("\"health\": \"/health\"")]
    [InlineData("\"health\": \"/title\"")]
    public async Task An_application_that_has_a_host_for_its_set_up_is_served_by_the_one_behind_it_and_deployed(string health)
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", """ "environment": { "SETUP": "yes", "TITLE": "real" } """).Replace("\"health\": \"/health\"", health, StringComparison.Ordinal));
        await StartAsync();
        await WaitForAsync(async () => await _client.GetStringAsync(_shop + "/title") == "real");
        Assert.Equal((0, "real\n", ""), await CommandProcess.RunAsync("get", "fastcgi://unix:" + Socket, "/title", "--body-only"));
        string process = await _client.GetStringAsync(_shop + "/process");

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        await WaitForAsync(async () => await _client.GetStringAsync(_shop + "/title") == "real");
        Assert.NotEqual(process, await _client.GetStringAsync(_shop + "/process"));
        Assert.Single(ProcessesOf("shop", await StatusAsync()));
    }

    // ---- systemd ----

    [Fact]
    public async Task Systemd_is_told_of_start_reload_and_end_and_gets_signs_of_life()
    {
        string path = Path.Combine(_directory.Path, "notify");
        using var manager = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Dgram, System.Net.Sockets.ProtocolType.Unspecified);
        manager.Bind(new System.Net.Sockets.UnixDomainSocketEndPoint(path));
        manager.ReceiveTimeout = (int)Patience.TotalMilliseconds;
        WriteShared(On("shop"), App("blog", _blog, """ "environment": { "FAULT": "throws" } """));      // a router is no application
        var daemon = CommandProcess.MillraceWith(["NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1000000"], "serve", File);
        _daemons.Add(daemon);

        Assert.Equal("WATCHDOG=1", Next(manager, "WATCHDOG"));
        Assert.Equal("READY=1\nSTATUS=1 of 2 applications serve", Next(manager, "READY"));
        daemon.Signal(10);     // SIGUSR1, out of habit
        daemon.Signal(1);
        Assert.Matches(@"^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$", Next(manager, "RELOADING"));
        Assert.Equal("READY=1\nSTATUS=1 of 2 applications serve", Next(manager, "READY"));
        daemon.Signal(CommandProcess.SigTerm);
        Assert.StartsWith("STOPPING=1\n", Next(manager, "STOPPING"), StringComparison.Ordinal);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    private static string Next(System.Net.Sockets.Socket manager, string kind)
    {
        byte[] buffer = new byte[4_096];
        for (long deadline = Environment.TickCount64 + (long)Patience.TotalMilliseconds; Environment.TickCount64 < deadline;)
        {
            string said = System.Text.Encoding.UTF8.GetString(buffer, 0, manager.Receive(buffer));
            if (said.StartsWith(kind, StringComparison.Ordinal))
            {
                return said;
            }
        }

        throw new TimeoutException($"{kind} has not been said; signs of life have.");
    }

    [Fact]
    public async Task The_unit_that_is_printed_is_one_that_systemd_takes()
    {
        string folder = Path.Combine(_directory.Path, "my apps 100%");
        Directory.CreateDirectory(folder);
        string file = Path.Combine(folder, "$file.json");
        await System.IO.File.WriteAllTextAsync(file, $"{{ \"control\": \"/run/millrace/control.sock\", \"snapshots\": \"/var/cache/millrace\", \"apps\": [ {App("shop", _shop)} ] }}");

        var (exitCode, unit, _) = await CommandProcess.RunAsync("unit", file);

        Assert.Equal(0, exitCode);
        Assert.Contains($"serve \"{folder.Replace("%", "%%", StringComparison.Ordinal)}/$$file.json\"\n", unit, StringComparison.Ordinal);
        Assert.Contains("\nOOMPolicy=continue\n", unit, StringComparison.Ordinal);
        Assert.Contains("\nKillMode=process\nFileDescriptorStoreMax=1024\nEnvironment=MILLRACE_FDSTORE=1024\n", unit, StringComparison.Ordinal);
        Assert.Contains("\nTimeoutStartSec=120\nTimeoutStopSec=55\n", unit, StringComparison.Ordinal);
        Assert.Contains(Environment.IsPrivilegedProcess ? "\nRuntimeDirectory=millrace\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=restart\nCacheDirectory=millrace\nCacheDirectoryMode=0711\n" : "\nWantedBy=default.target\n", unit, StringComparison.Ordinal);
        Assert.Contains(Environment.IsPrivilegedProcess ? "\nPrivateTmp=no\n" : "\n", unit, StringComparison.Ordinal);
        if (System.IO.File.Exists("/usr/bin/systemd-analyze"))
        {
            string written = Path.Combine(_directory.Path, "millrace.service");
            await System.IO.File.WriteAllTextAsync(written, unit);
            await using var verify = CommandProcess.StartProgram("systemd-analyze", "verify", written);
            int code = await verify.WaitForExitAsync();
            Assert.DoesNotContain(verify.Error.Split('\n'), line => line.StartsWith(written, StringComparison.Ordinal));
            Assert.Equal(0, code);
        }
    }

    // As soon as it listens: between bind(2) and listen(2) a socket has a name, and refuses.
    private static async Task<System.Net.Sockets.Socket> ConnectAsync(string path)
    {
        System.Net.Sockets.Socket? connected = null;
        await WaitForAsync(async () =>
        {
            var socket = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
            try
            {
                await socket.ConnectAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(path));
                connected = socket;
            }
            catch (System.Net.Sockets.SocketException)
            {
                socket.Dispose();
            }
            return connected is not null;
        });
        return connected!;
    }

    // ---- a daemon of the test's own ----

    internal static string FreeAddress()
    {
        using var listener = new System.Net.Sockets.TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        return string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{((IPEndPoint)listener.LocalEndpoint).Port}");
    }

    private static string App(string name, string urls, params string[] more)
    {
        string[] settings =
        [
            $"\"name\": \"{name}\"", $"\"target\": \"{HostKinds}\"", $"\"urls\": \"{urls}\"", "\"arguments\": [\"Served\"]", "\"health\": \"/health\"",
            "\"timeouts\": { \"start\": \"" + (string.Concat(more).Contains("\"ill\"", StringComparison.Ordinal) ? "3s" : "60s") + "\", \"settle\": \"100ms\", \"hang\": \"5s\", \"drain\": \"10s\" }",
            .. more,
        ];
        return $"{{ {string.Join(", ", settings)} }}";
    }

    private void Write(params string[] apps) =>
        System.IO.File.WriteAllText(File, $"{{ \"control\": \"run/control.sock\", \"snapshots\": \"snapshots\", \"apps\": [\n\n{string.Join(",\n", apps)}\n] }}\n");

    // Nothing of it is left.
    private async Task EndAsync(CommandProcess daemon, int[] processes)
    {
        daemon.Signal(CommandProcess.SigTerm);
        int exitCode = await daemon.WaitForExitAsync();
        Assert.True(exitCode == 0, $"{exitCode}: {daemon.Error}");
        Assert.All(processes, static process => Assert.True(HasEnded(process)));
        Assert.Empty(Directory.GetFiles(_directory.Path, "*.sock"));
        Assert.Empty(Directory.GetFiles(Path.GetDirectoryName(Control)!));
    }

    private async Task<CommandProcess> StartAsync(string? waitFor = null)
    {
        var daemon = CommandProcess.Millrace("serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ");
        if (waitFor is not null)
        {
            await daemon.WaitForOutputAsync(waitFor);
            return daemon;
        }
        await WaitForAsync(async () => JsonDocument.Parse(await StatusAsync()).RootElement.GetProperty("apps").EnumerateArray().All(static app => app.GetProperty("state").GetString() == "serving"));
        return daemon;
    }

    private Task<(int ExitCode, string Output, string Error)> DoAsync(params string[] arguments) => RunningDaemon.DoAsync([.. arguments, "--control", Control]);

    private Task<string> StatusAsync() => RunningDaemon.StatusAsync(Control);

    private static JsonElement AppOf(string name, string status) =>
        JsonDocument.Parse(status).RootElement.GetProperty("apps").EnumerateArray().Single(app => app.GetProperty("name").GetString() == name);

    private static IEnumerable<int> ProcessesOf(string name, string status, string which = "processes") =>
        AppOf(name, status).GetProperty(which).EnumerateArray().Select(static process => process.GetProperty("process").GetInt32());

    private Task WaitForStatusAsync(string app, string state) => WaitForAsync(async () => AppOf(app, await StatusAsync()).GetProperty("state").GetString() == state);

    private static async Task WaitForAsync(Func<Task<bool>> condition)
    {
        long deadline = Environment.TickCount64 + (long)Patience.TotalMilliseconds;
        while (!await condition())
        {
            Assert.True(Environment.TickCount64 < deadline, "It has not come about in time.");
            await Task.Delay(50);
        }
    }
}
