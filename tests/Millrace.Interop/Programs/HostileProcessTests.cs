// Processes of a pool that do what no FastCGI program should: a few lines of Perl, which every Debian has. Each counts what it is asked.
using System.Diagnostics;
using Microsoft.AspNetCore.Builder;
using Millrace.Connector;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class HostileProcessTests : IDisposable
{
    private const string Program = """
        use strict; use Socket;
        my $folder = shift;
        open(my $listener, "+<&=", 0) or die;
        my $id = 1;
        sub record { my ($type, $content) = @_; return pack("CCnnCC", 1, $type, $id, length $content, 0, 0) . $content }
        sub pause { select(undef, undef, undef, $_[0]) }
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
                open(my $count, ">>", "$folder/$what"); syswrite($count, "1"); close $count;
                my $answer = record(6, "Content-Type: text/plain\r\n\r\n$what") . record(6, "") . record(3, pack("NCxxx", 0, 0));
                if ($what eq "early") { print $peer $answer; pause(1); last }
                if ($what eq "garbage") { print $peer "HTTP/1.1 200 OK\r\n\r\n"; pause(60) }
                if ($what eq "closes") { last }
                if ($what eq "half") { print $peer substr($answer, 0, 20); pause(60) }
                if ($what eq "begun") { print $peer record(6, "Content-Type: text/plain\r\n\r\nhalf of a page"); pause(0.3); exit 1 }
                if ($what eq "late") { pause(0.4) }
                if ($what eq "accel") { print $peer record(6, "X-Accel-Redirect: /sent/file\r\n\r\n"); pause(0.05) until -e "$folder/go"; $answer = record(6, "") . record(3, pack("NCxxx", 0, 0)) }
                print $peer $answer;
                $params = "";
            }
            close $peer;
        }
        """;

    private readonly TemporaryDirectory _folder = new("hostile");
    private readonly HttpClient _client = new();

    public void Dispose()
    {
        _client.Dispose();
        _folder.Dispose();
    }

    private long Calls(string what) => new FileInfo(Path.Combine(_folder.Path, what)) is { Exists: true } file ? file.Length : 0;

    private Task<PhpApp> StartAsync(TimeSpan? readTimeout = null, Action<WebApplication>? before = null)
    {
        var processes = new ProcessPoolOptions { Command = "perl", Arguments = { "-e", Program, _folder.Path }, Min = 2, Max = 2, AbortLimit = TimeSpan.FromMilliseconds(300) };
        return PhpApp.StartAsync(null, onMillrace: true, "/{**path}", Configure, processes, before: before);

        void Configure(FastCgiProgramOptions options)
        {
            options.ReadTimeout = readTimeout ?? options.ReadTimeout;
            options.SendFileRoots["/sent/"] = _folder.Path;
        }
    }

    private async Task<(int Status, string Text)> AskAsync(PhpApp app, string what, string method = "GET", int body = 0)
    {
        using var request = new HttpRequestMessage(new HttpMethod(method), $"http://{app.EndPoint}/{what}");
        request.Content = body > 0 ? new ByteArrayContent(new byte[body]) : null;
        using HttpResponseMessage response = await _client.SendAsync(request);
        return ((int)response.StatusCode, await response.Content.ReadAsStringAsync());
    }

    private static async Task EndsBecomeAsync(PhpApp app, WorkerEnd reason, int count)
    {
        var watch = Stopwatch.StartNew();
        while (app.Pool.GetStatus().Ends.GetValueOrDefault(reason) != count)
        {
            Assert.True(watch.Elapsed < TimeSpan.FromSeconds(10), $"{reason}: {app.Pool.GetStatus().Ends.GetValueOrDefault(reason)}");
            await Task.Delay(20);
        }
    }

    [Fact]
    public async Task Programs_in_Perl_are_served_with_connections_that_are_kept()
    {
        await using PhpApp app = await StartAsync();
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal((200, "hello"), await AskAsync(app, "hello", i % 2 == 0 ? "GET" : "POST", body: i));
        }

        Assert.Equal((200, "late"), await AskAsync(app, "late"));
        Assert.Equal(100, Calls("hello"));
        Assert.Empty(app.Pool.GetStatus().Ends);
    }

    [Fact]
    public async Task An_answer_before_the_body_has_been_read_is_passed_on_and_the_process_goes_on()
    {
        await using PhpApp app = await StartAsync();
        for (int i = 1; i <= 3; i++)
        {
            Assert.Equal((200, "early"), await AskAsync(app, "early", "POST", body: 4_000_000));
            Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
            Assert.Equal(i, Calls("early"));
        }

        Assert.Empty(app.Pool.GetStatus().Ends);
    }

    [Theory]
    [InlineData("GET", 2)]
    [InlineData("POST", 1)]
    public async Task A_process_that_ends_its_connection_without_an_answer_stays_and_what_is_safe_is_asked_once_more(string method, int calls)
    {
        await using PhpApp app = await StartAsync();
        Assert.Equal(502, (await AskAsync(app, "closes", method)).Status);
        Assert.Equal(calls, Calls("closes"));
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
        Assert.Empty(app.Pool.GetStatus().Ends);
    }

    [Theory]
    [InlineData("GET", 2)]
    [InlineData("POST", 1)]
    public async Task However_many_connections_are_kept_nothing_is_sent_more_than_twice(string method, int calls)
    {
        await using PhpApp app = await StartAsync();
        Task<(int, string)>[] late = [AskAsync(app, "late"), AskAsync(app, "late")];      // both processes have a connection now
        Assert.Equal([(200, "late"), (200, "late")], await Task.WhenAll(late));

        Assert.Equal(502, (await AskAsync(app, "closes", method)).Status);
        Assert.Equal(calls, Calls("closes"));
    }

    [Theory]
    [InlineData("GET")]
    [InlineData("POST")]
    public async Task A_process_whose_answer_is_no_FastCGI_is_killed_and_its_request_is_sent_to_no_other(string method)
    {
        await using PhpApp app = await StartAsync();
        Assert.Equal(502, (await AskAsync(app, "garbage", method)).Status);
        Assert.Equal(1, Calls("garbage"));
        await EndsBecomeAsync(app, WorkerEnd.Abandoned, 1);
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
        Assert.Contains(app.Said.All, static line => line.StartsWith("19 ", StringComparison.Ordinal) && line.Contains("is no FastCGI", StringComparison.Ordinal));
    }

    // The response begins when what the application does before it (OnStarting) has been done.
    [Fact]
    public async Task Nothing_of_an_answer_that_breaks_off_before_the_response_could_begin_is_a_body_of_502()
    {
        await using PhpApp app = await StartAsync(before: static app => app.Use(static (context, next) =>
        {
            context.Response.OnStarting(static path => (string)path == "/begun" ? Task.Delay(2_000) : Task.CompletedTask, context.Request.Path.Value!);
            return next(context);
        }));
        await Assert.ThrowsAsync<HttpRequestException>(() => AskAsync(app, "begun"));
        Assert.Equal(1, Calls("begun"));
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
    }

    [Fact]
    public async Task What_the_application_throws_as_the_response_begins_is_not_called_an_end_of_the_programs_connection()
    {
        await using PhpApp app = await StartAsync(before: static app => app.Use(static (context, next) =>
        {
            context.Response.OnStarting(static path => (string)path == "/begun" ? throw new ObjectDisposedException("the application's") : Task.CompletedTask, context.Request.Path.Value!);
            return next(context);
        }));
        Assert.Equal(500, (await AskAsync(app, "begun")).Status);
        Assert.DoesNotContain(app.Said.All, static line => line.Contains("ended the connection", StringComparison.Ordinal));
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
    }

    [Fact]
    public async Task A_script_that_has_handed_over_to_a_file_goes_on_behind_AbortLimit_and_its_visitor_has_the_file_meanwhile()
    {
        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "file"), "sent");
        await using PhpApp app = await StartAsync();
        Assert.Equal((200, "sent"), await AskAsync(app, "accel"));
        Assert.Equal((200, "sent"), await AskAsync(app, "accel", "POST", body: 1_000));
        await Task.Delay(TimeSpan.FromSeconds(1));
        Assert.Equal(2, app.Pool.GetStatus().Running);
        Assert.Empty(app.Pool.GetStatus().Ends);

        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "go"), "");
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "file"), "once more");
        Assert.Equal((200, "once more"), await AskAsync(app, "accel"));
        Assert.Empty(app.Pool.GetStatus().Ends);
    }

    [Fact]
    public async Task A_script_that_hands_over_to_a_file_and_reads_no_body_is_not_killed_for_that()
    {
        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "file"), "sent");
        await using PhpApp app = await StartAsync();
        Task<(int, string)> answer = AskAsync(app, "accel", "POST", body: 4_000_000);
        await Task.Delay(TimeSpan.FromSeconds(1));
        Assert.Empty(app.Pool.GetStatus().Ends);

        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "go"), "");
        Assert.Equal((200, "sent"), await answer);
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
        Assert.Empty(app.Pool.GetStatus().Ends);
    }

    [Fact]
    public async Task A_script_that_has_handed_over_to_a_file_and_says_nothing_for_ReadTimeout_is_killed_behind_AbortLimit()
    {
        await File.WriteAllTextAsync(Path.Combine(_folder.Path, "file"), "sent");
        await using PhpApp app = await StartAsync(TimeSpan.FromSeconds(1));
        Assert.Equal((200, "sent"), await AskAsync(app, "accel"));
        await EndsBecomeAsync(app, WorkerEnd.Abandoned, 1);
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
    }

    [Fact]
    public async Task A_process_that_stops_in_the_middle_of_its_answer_is_504_behind_ReadTimeout_and_killed_behind_AbortLimit()
    {
        await using PhpApp app = await StartAsync(TimeSpan.FromSeconds(2));
        Assert.Equal(504, (await AskAsync(app, "half")).Status);
        Assert.Equal(1, Calls("half"));
        await EndsBecomeAsync(app, WorkerEnd.Abandoned, 1);
        Assert.Equal((200, "hello"), await AskAsync(app, "hello"));
    }
}
