// A process of a pool that dies while something that it has started still has its connection, and the other descriptors that it does not close for those: php-cgi and exec(). What is left behind goes on until
// the folder of the test has gone, or for as long as a test says.
using System.Diagnostics;
using System.Globalization;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class OrphanedConnectionTests : IDisposable
{
    private const int Long = 120_000;

    // What it has forked has the connection as well.
    private const string Program = """
        use strict; use Socket;
        my $folder = shift;
        open(my $listener, "+<&=", 0) or die;
        my $id = 1;
        sub record { my ($type, $content) = @_; return pack("CCnnCC", 1, $type, $id, length $content, 0, 0) . $content }
        while (accept(my $peer, $listener)) {
            binmode $peer; select((select($peer), $| = 1)[0]);
            my $params = "";
            while ((read($peer, my $head, 8) // 0) == 8) {
                my (undef, $type, $of, $length, $padding) = unpack("CCnnC", $head); $id = $of if $of;
                my $content = "";
                read($peer, $content, $length + $padding) if $length + $padding;
                if ($type == 9) { print $peer pack("CCnnCC", 1, 10, 0, 0, 0, 0); next }
                if ($type == 4 && $length) { $params .= $content; next }
                next unless $type == 4 && $params =~ m{REQUEST_URI/(\w+)};
                my $what = $1;
                if (!fork) { select(undef, undef, undef, 0.05) while -d $folder; exit }
                my $answer = record(6, "Content-Type: text/plain\r\n\r\n") . record(6, "x" x 60_000) . record(6, "x" x 60_000) . record(6, "") . record(3, pack("NCxxx", 0, 0));
                print $peer $what eq "half" ? substr($answer, 0, 100_000) : $answer;
                kill 9, $$;
            }
        }
        """;

    private readonly TemporaryDirectory _site = new("orphaned");
    private readonly HttpClient _client = new();

    public OrphanedConnectionTests()
    {
        Write("pid", "echo getmypid();");
        Write("dies", $"exec('while [ -d {_site.Path} ]; do sleep 0.05; done >/dev/null 2>&1 &'); posix_kill(getmypid(), 9); sleep(60);");
        Write("waits", $"exec('while [ -d {_site.Path} ] && [ ! -e {_site.Path}/go ]; do sleep 0.05; done; echo It goes on. >&2');");
    }

    private void Write(string name, string script) =>
        File.WriteAllText(Path.Combine(_site.Path, $"{name}.php"), $"<?php file_put_contents('{_site.Path}/{name}.pids', getmypid() . \"\\n\", FILE_APPEND); {script}");

    // Those that have begun with a script.
    private string[] ProcessesOf(string name) => Path.Combine(_site.Path, $"{name}.pids") is var file && File.Exists(file) ? File.ReadAllLines(file) : [];

    public void Dispose()
    {
        _client.Dispose();
        _site.Dispose();
    }

    private Task<PhpApp> StartAsync(bool onMillrace, ProcessPoolOptions processes) =>
        PhpApp.StartAsync(null, onMillrace, "/{**path}", options => (options.Root, options.ReadTimeout) = (processes.Command == "php-cgi" ? _site.Path : null, TimeSpan.FromSeconds(5)), processes);

    private static ProcessPoolOptions Php(int count) => new() { Command = "php-cgi", Min = count, Max = count };

    private ProcessPoolOptions Perl() => new() { Command = "perl", Arguments = { "-e", Program, _site.Path }, Min = 2, Max = 2 };

    private async Task<(int Status, string Text)> AskAsync(PhpApp app, string target, string method = "GET")
    {
        using var request = new HttpRequestMessage(new HttpMethod(method), $"http://{app.EndPoint}{target}");
        using HttpResponseMessage response = await _client.SendAsync(request);
        return ((int)response.StatusCode, await response.Content.ReadAsStringAsync());
    }

    private static bool HasSaid(PhpApp app, string what) => app.Said.All.Any(line => line.Contains(what, StringComparison.Ordinal));

    // Nothing is waited for that only ReadTimeout would end: that is 504.
    [Theory]
    [InlineData("GET", 2, true)]
    [InlineData("POST", 1, true)]
    [InlineData("GET", 2, false)]
    [InlineData("POST", 1, false)]
    public async Task Its_request_ends_with_the_process_and_is_asked_again_elsewhere_once_and_only_where_that_is_safe_RFC9110_9_2_2(string method, int calls, bool onMillrace)
    {
        await using PhpApp app = await StartAsync(onMillrace, Php(2));

        Assert.Equal(502, (await AskAsync(app, "/dies.php", method)).Status);

        Assert.Equal(calls, ProcessesOf("dies").Length);
        await ProcessPoolTests.UntilAsync(() => app.Pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Exited) == calls);
        Assert.Equal(200, (await AskAsync(app, "/pid.php")).Status);
        await ProcessPoolTests.UntilAsync(() => app.Said.All.Count(static line => line.StartsWith("16 ", StringComparison.Ordinal) && line.Contains("signal 9 has ended it.", StringComparison.Ordinal)) == calls);
    }

    // What is left behind holds what the process has printed to as well: another one is there before that ends.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Its_place_is_filled_while_what_it_has_started_goes_on(bool onMillrace)
    {
        await using PhpApp app = await StartAsync(onMillrace, Php(1));
        Task<(int Status, string Text)> waits = AskAsync(app, "/waits.php", "POST");
        await ProcessPoolTests.UntilAsync(() => ProcessesOf("waits").Length == 1);

        using (var process = Process.GetProcessById(int.Parse(ProcessesOf("waits")[0], CultureInfo.InvariantCulture)))
        {
            process.Kill();
        }

        Assert.Equal(502, (await waits).Status);
        Assert.Equal(200, (await AskAsync(app, "/pid.php")).Status);
        await File.WriteAllTextAsync(Path.Combine(_site.Path, "go"), "");
        await ProcessPoolTests.UntilAsync(() => HasSaid(app, "It goes on."));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_it_had_answered_whole_is_answered(bool onMillrace)
    {
        await using PhpApp app = await StartAsync(onMillrace, Perl());
        for (int i = 0; i < 20; i++)
        {
            (int status, string text) = await AskAsync(app, "/whole");
            Assert.Equal((200, Long), (status, text.Length));
        }
        await ProcessPoolTests.UntilAsync(() => app.Pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Exited) == 20);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_it_had_answered_in_part_passes_for_all_of_it_with_nobody(bool onMillrace)
    {
        await using PhpApp app = await StartAsync(onMillrace, Perl());

        await Assert.ThrowsAsync<HttpRequestException>(() => AskAsync(app, "/half"));

        await ProcessPoolTests.UntilAsync(() => HasSaid(app, "It has ended the connection in the middle of its response."));
    }
}
