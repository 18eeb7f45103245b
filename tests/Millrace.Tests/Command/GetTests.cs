// `millrace get` against a scripted FastCGI peer: what goes out, what is printed, and the exit code.

using System.Security.Cryptography;
using System.Text;
using Millrace.Command;
using Millrace.Protocols.FastCgi;
using static Millrace.Tests.Command.ScriptedResponder;

namespace Millrace.Tests.Command;

public sealed class GetTests
{
    private const string Hello = "Status: 200 OK\r\nContent-Type: text/plain\r\nX-A: 1\r\n\r\nHello, World!";

    [Theory]
    [InlineData(1)]
    [InlineData(7)]
    [InlineData(int.MaxValue)]
    public async Task Status_headers_and_body_are_printed_however_the_answer_is_cut(int chunk)
    {
        await using var responder = new ScriptedResponder(Answer(Hello), chunk);

        var result = await CommandLine.RunAsync("get", responder.Address, "/hello");

        Assert.Equal(new CommandLine(0, "200 OK\nContent-Type: text/plain\nX-A: 1\n\nHello, World!", ""), result);
    }

    [Theory]
    [InlineData("\u00C3\u00A4.pdf", "\u00E4.pdf")]
    [InlineData("\u00E4.pdf", "\u00E4.pdf")]       // Latin-1
    [InlineData("\u009B2J", "\uFFFD2J")]
    public async Task Fields_beyond_ASCII_are_printed_as_what_they_are_most_likely_RFC9110_5_5(string bytes, string printed)
    {
        await using var responder = new ScriptedResponder([.. Record(RecordType.Stdout, Encoding.Latin1.GetBytes($"Status: 200 OK\r\nX-A: {bytes}\r\n\r\nHello")), .. Record(RecordType.Stdout, ""), .. End()]);

        Assert.Equal(new CommandLine(0, $"200 OK\nX-A: {printed}\n\nHello", ""), await CommandLine.RunAsync("get", responder.Address, "/"));
    }

    [Theory]
    [InlineData("-I")]
    [InlineData("--head")]
    public async Task Status_and_headers_alone_are_asked_for_with_HEAD_RFC9110_9_3_2(string option)
    {
        await using var responder = new ScriptedResponder(Answer("Status: 200 OK\r\nContent-Length: 13\r\n\r\n"));

        Assert.Equal(new CommandLine(0, "200 OK\nContent-Length: 13\n\n", ""), await CommandLine.RunAsync("get", responder.Address, "/hello", option));
        Assert.Equal("HEAD", responder.Parameter("REQUEST_METHOD"));
    }

    [Theory]
    [InlineData("200 OK\nContent-Type: text/plain\nX-A: 1\n\n")]
    [InlineData("200 OK\nContent-Type: text/plain\nX-A: 1\n\n", "-i")]
    [InlineData("", "-b")]
    public async Task The_body_goes_to_a_file_where_one_is_named(string printed, params string[] options)
    {
        await using var responder = new ScriptedResponder(Answer(Hello));
        string file = Path.GetTempFileName();
        await File.WriteAllTextAsync(file, "what was there before, and is longer than what comes");

        Assert.Equal(new CommandLine(0, printed, ""), await CommandLine.RunAsync(["get", responder.Address, "/hello", "-o", file, .. options]));
        Assert.Equal("Hello, World!", await File.ReadAllTextAsync(file));
        File.Delete(file);
    }

    [Theory]
    [InlineData("/nowhere/at/all")]
    [InlineData("/dev/full")]
    public async Task A_file_that_cannot_be_written_is_a_sentence_and_not_the_responses_fault(string file)
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        var result = await CommandLine.RunAsync("get", responder.Address, "/hello", "--output", file);

        Assert.Equal(1, result.ExitCode);
        Assert.StartsWith($"millrace: The file '{file}' cannot be written: ", result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_file_that_is_a_link_is_not_written_Hostile_72()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));
        string link = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
        string file = Path.GetTempFileName();
        File.CreateSymbolicLink(link, file);

        var result = await CommandLine.RunAsync("get", responder.Address, "/hello", "--output", link);

        Assert.Equal((1, $"millrace: The file '{link}' cannot be written: it is a link. Name the file it leads to.\n"), (result.ExitCode, result.Error));
        Assert.Equal("", await File.ReadAllTextAsync(file));
        File.Delete(link);
        File.Delete(file);
    }

    [Fact]
    public async Task A_request_over_a_Unix_socket_names_localhost_as_its_host()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync("get", responder.Address, "/hello");

        Assert.Equal("localhost", responder.Parameter("HTTP_HOST"));
    }

    [Fact]
    public async Task Request_is_BEGIN_PARAMS_STDIN_with_their_ends_FastCGI_3_3()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync("get", responder.Address, "/hello?x=1&y=a b", "-H", "Host: shop.example:8080", "-H", "X-Two-Words: v", "-H", "X-Two-Words: w");

        Assert.Equal([RecordType.BeginRequest, RecordType.Params, RecordType.Params, RecordType.Stdin], responder.Records);
        Assert.Equal("GET", responder.Parameter("REQUEST_METHOD"));
        Assert.Equal("/hello?x=1&y=a%20b", responder.Parameter("REQUEST_URI"));
        Assert.Equal("x=1&y=a%20b", responder.Parameter("QUERY_STRING"));
        Assert.Equal("shop.example:8080", responder.Parameter("HTTP_HOST"));
        Assert.Equal("shop.example", responder.Parameter("SERVER_NAME"));
        Assert.Equal("8080", responder.Parameter("SERVER_PORT"));
        Assert.Equal(["v", "w"], responder.Parameters.Where(p => p.Key == "HTTP_X_TWO_WORDS").Select(p => p.Value));
        Assert.DoesNotContain(responder.Parameters, p => p.Key is "CONTENT_LENGTH" or "CONTENT_TYPE");
    }

    [Fact]
    public async Task Variables_of_the_users_stand_in_for_those_of_the_request_or_come_besides()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync("get", responder.Address, "/ping", "-p", "SCRIPT_FILENAME=/ping", "--param", "REMOTE_ADDR=192.0.2.1", "-p", "EMPTY=", "-p", "A=b=c");

        Assert.Equal(("/ping", "192.0.2.1", "", "b=c"), (responder.Parameter("SCRIPT_FILENAME"), responder.Parameter("REMOTE_ADDR"), responder.Parameter("EMPTY"), responder.Parameter("A")));
    }

    [Theory]
    [InlineData("/index.php", "index.php", "/var/www", "/var/www/index.php", "/index.php", "/var/www", null)]
    [InlineData("/index.php/a%20b/c?x=1", "index.php", "/var/www/", "/var/www/index.php", "/index.php", "/var/www/", "/a b/c")]
    [InlineData("/elsewhere", "/srv/app/index.php", null, "/srv/app/index.php", "/index.php", "/srv/app", null)]
    [InlineData("/sub/x.php/i", "sub/x.php", "/srv", "/srv/sub/x.php", "/sub/x.php", "/srv", "/i")]
    [InlineData("/index.phpx", "index.php", "/", "/index.php", "/index.php", "/", null)]
    public async Task A_script_is_named_as_web_servers_name_it_RFC_3875_4_1(string target, string script, string? root, string file, string name, string documents, string? info)
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync(["get", responder.Address, target, "--script", script, .. root is null ? Array.Empty<string>() : ["--root", root]]);

        Assert.Equal((file, name, documents), (responder.Parameter("SCRIPT_FILENAME"), responder.Parameter("SCRIPT_NAME"), responder.Parameter("DOCUMENT_ROOT")));
        Assert.Equal(info, responder.Parameters.SingleOrDefault(static parameter => parameter.Key == "PATH_INFO").Value);
    }

    [Theory]
    [InlineData("'=x' is no variable.", "fastcgi://unix:/nowhere", "/", "-p", "=x")]
    [InlineData("'x' is no variable.", "fastcgi://unix:/nowhere", "/", "-p", "x")]
    [InlineData("/etc/x.php is not below /var/www.", "fastcgi://unix:/nowhere", "/", "--script", "/etc/x.php", "--root", "/var/www")]
    [InlineData("/var/x.php is not below /var/www.", "fastcgi://unix:/nowhere", "/", "--script", "../x.php", "--root", "/var/www")]
    [InlineData("--root says where --script lies", "fastcgi://unix:/nowhere", "/", "--root", "/var/www")]
    [InlineData("--param and --script are for FastCGI", "http://unix:/nowhere", "/", "-p", "A=b")]
    public async Task What_cannot_be_sent_is_a_sentence(string sentence, params string[] arguments)
    {
        var result = await CommandLine.RunAsync(["get", .. arguments]);

        Assert.Equal((2, ""), (result.ExitCode, result.Output));
        Assert.StartsWith("millrace: " + sentence, result.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("GET", "Content-Length: 6\r\n\r\nbody", 56)]
    [InlineData("GET", "Content-Length: 3\r\n\r\nbody", 56)]
    [InlineData("GET", "Content-Length: 4\r\n\r\nbody", 0)]
    [InlineData("HEAD", "Content-Length: 4\r\n\r\n", 0)]
    [InlineData("GET", "Status: 304\r\nContent-Length: 4\r\n\r\n", 0)]
    public async Task A_body_of_another_length_than_announced_is_a_broken_response(string method, string answer, int exitCode)
    {
        await using var responder = new ScriptedResponder(Answer(answer));

        var result = await CommandLine.RunAsync("get", responder.Address, "/", "-X", method);

        Assert.Equal(exitCode, result.ExitCode);
        Assert.Equal(exitCode != 0, result.Error.Contains("and its Content-Length says", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Escapes_reach_the_server_as_written_and_letters_beyond_ASCII_as_UTF8()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync("get", responder.Address, "/a%2Fb/../ä");

        Assert.Equal("/a%2Fb/../%C3%A4", responder.Parameter("REQUEST_URI"));
    }

    [Fact]
    public async Task Data_makes_a_POST_with_length_and_type()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        await CommandLine.RunAsync("get", responder.Address, "/", "-d", "a=1");

        Assert.Equal("POST", responder.Parameter("REQUEST_METHOD"));
        Assert.Equal("3", responder.Parameter("CONTENT_LENGTH"));
        Assert.Equal("application/x-www-form-urlencoded", responder.Parameter("CONTENT_TYPE"));
        Assert.Equal("a=1", Encoding.UTF8.GetString(responder.Body.ToArray()));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(32 * 1024)]
    [InlineData(70_001)]
    public async Task File_is_sent_as_it_is(int size)
    {
        var content = new byte[size];
        RandomNumberGenerator.Fill(content);
        string file = Path.GetTempFileName();
        try
        {
            await File.WriteAllBytesAsync(file, content);
            await using var responder = new ScriptedResponder(Answer(Hello));

            var result = await CommandLine.RunAsync("get", responder.Address, "/", "-X", "PUT", "-d", "@" + file, "-H", "Content-Type: a/b");

            Assert.Equal(0, result.ExitCode);
            Assert.Equal("PUT", responder.Parameter("REQUEST_METHOD"));
            Assert.Equal("a/b", responder.Parameter("CONTENT_TYPE"));
            Assert.Equal(content, responder.Body.ToArray());
        }
        finally
        {
            File.Delete(file);
        }
    }

    [Fact]
    public async Task Answer_before_the_body_is_read_is_printed()
    {
        string file = Path.GetTempFileName();
        try
        {
            await File.WriteAllBytesAsync(file, new byte[4 << 20]);
            await using var responder = new ScriptedResponder(Answer("Status: 413 Too Large\r\n\r\nno"), readsRequest: false);

            var result = await CommandLine.RunAsync("get", responder.Address, "/", "-d", "@" + file);

            Assert.Equal(new CommandLine(22, "413 Too Large\n\nno", ""), result);
        }
        finally
        {
            File.Delete(file);
        }
    }

    [Fact]
    public async Task Body_only_prints_nothing_else()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        var result = await CommandLine.RunAsync("get", responder.Address, "/", "--body-only");

        Assert.Equal("Hello, World!", result.Output);
    }

    [Theory]
    [InlineData("Content-Type: a/b\n\n", 0, "200 OK")]
    [InlineData("Location: /x\r\n\r\n", 0, "302 Found")]
    [InlineData("Status: 404 Not Found\r\n\r\n", 22, "404 Not Found")]
    [InlineData("Status: 500\r\n\r\n", 22, "500")]
    public async Task Status_is_that_of_RFC3875_6_3_3_and_400_or_more_is_exit_code_22(string head, int exitCode, string status)
    {
        await using var responder = new ScriptedResponder(Answer(head));

        var result = await CommandLine.RunAsync("get", responder.Address, "/");

        Assert.Equal(exitCode, result.ExitCode);
        Assert.StartsWith(status + "\n", result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task STDERR_goes_to_standard_error_in_order_with_nothing_added()
    {
        await using var responder = new ScriptedResponder([.. Record(RecordType.Stderr, "it broke\n"), .. Answer(Hello)]);

        var result = await CommandLine.RunAsync("get", responder.Address, "/");

        Assert.Equal("it broke\n", result.Error);
        Assert.EndsWith("Hello, World!", result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task STDERR_commands_no_terminal_and_its_characters_may_straddle_records()
    {
        byte[] line = Encoding.UTF8.GetBytes("gr\u00fcn \u001b[31mred\n");
        await using var responder = new ScriptedResponder([.. Record(RecordType.Stderr, line[..3]), .. Record(RecordType.Stderr, line[3..]), .. Answer(Hello)]);

        var result = await CommandLine.RunAsync("get", responder.Address, "/");

        Assert.Equal("gr\u00fcn \ufffd[31mred\n", result.Error);
    }

    [Fact]
    public async Task File_that_does_not_know_its_length_is_announced_with_the_one_it_has()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        var result = await CommandLine.RunAsync("get", responder.Address, "/", "-v", "-d", "@/proc/version");

        Assert.Contains($">   CONTENT_LENGTH = {File.ReadAllBytes("/proc/version").Length}\n", result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Verbose_shows_the_records_both_ways()
    {
        await using var responder = new ScriptedResponder(Answer(Hello));

        var result = await CommandLine.RunAsync("get", responder.Address, "/", "-v");

        Assert.Contains("> BEGIN_REQUEST id=1 8 bytes role=RESPONDER\n", result.Error, StringComparison.Ordinal);
        Assert.Contains(">   REQUEST_URI = /\n", result.Error, StringComparison.Ordinal);
        Assert.Contains("> STDIN id=1 0 bytes\n", result.Error, StringComparison.Ordinal);
        Assert.Contains($"< STDOUT id=1 {Hello.Length} bytes\n< STDOUT id=1 0 bytes\n< END_REQUEST id=1 8 bytes app-status=0 REQUEST_COMPLETE\n", result.Error, StringComparison.Ordinal);
    }

    public static TheoryData<string, byte[], string> BrokenAnswers => new()
    {
        { "closed at once", [], "closed the connection before it ended the request" },
        { "no END_REQUEST", Record(RecordType.Stdout, Hello), "closed the connection before it ended the request" },
        { "cut inside a record", Answer(Hello)[..^3], "closed the connection before it ended the request" },
        { "no head", [.. Record(RecordType.Stdout, "Status: 200 OK\r\n"), .. End()], "before its headers were complete" },
        { "not a head", Answer("HTTP/1.1 200 OK\r\n\r\n"), "is not a header" },
        { "not a status", Answer("Status: fine\r\n\r\n"), "'fine' is not a status" },
        { "another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"u8.ToArray(), "does not speak FastCGI version 1" },
        { "broken off", [.. Record(RecordType.Stdout, Hello), .. new byte[8]], "bytes follow that are no record" },
        { "a line that does not end", [.. Record(RecordType.Stderr, "half a line"), .. new byte[8]], "half a line\nmillrace: The response is broken" },
        { "END_REQUEST of 4 bytes (FastCGI 5.5)", Record(RecordType.EndRequest, new byte[4]), "carries 4 bytes instead of 8" },
        { "END_REQUEST of 9 bytes (FastCGI 5.5)", Record(RecordType.EndRequest, new byte[9]), "carries 9 bytes instead of 8" },
        { "overloaded", End(status: ProtocolStatus.Overloaded), "refused the request: OVERLOADED" },
        { "unknown role", End(status: ProtocolStatus.UnknownRole), "refused the request: UNKNOWN_ROLE" },
        { "application failed", [.. Record(RecordType.Stdout, Hello), .. End(appStatus: 1)], "ended it with status 1" },
    };

    [Theory]
    [MemberData(nameof(BrokenAnswers))]
    public async Task Broken_answer_is_exit_code_56_with_the_reason(string what, byte[] answer, string reason)
    {
        await using var responder = new ScriptedResponder(answer);

        var result = await CommandLine.RunAsync("get", responder.Address, "/");

        Assert.True(result.ExitCode == ExitCode.BrokenResponse, what);
        Assert.Contains(reason, result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Records_of_other_ids_are_passed_over()
    {
        await using var responder = new ScriptedResponder([.. Record(RecordType.Stdout, "Status: 500\r\n\r\n", id: 2), .. Record(RecordType.UnknownType, new byte[8], id: 0), .. Answer(Hello)]);

        Assert.Equal(0, (await CommandLine.RunAsync("get", responder.Address, "/")).ExitCode);
    }

    [Fact]
    public async Task Silent_server_is_exit_code_28()
    {
        using var listener = new System.Net.Sockets.TcpListener(System.Net.IPAddress.Loopback, 0);
        listener.Start();

        var result = await CommandLine.RunAsync("get", $"fastcgi://{listener.LocalEndpoint}", "/", "--timeout", "0.2");

        Assert.Equal(ExitCode.TimedOut, result.ExitCode);
        Assert.Contains("within 0.2 seconds", result.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("fastcgi://unix:/nowhere/at/all.sock", "There is no socket /nowhere/at/all.sock")]
    [InlineData("http://unix:/nowhere/at/all.sock", "There is no socket /nowhere/at/all.sock")]
    [InlineData("fastcgi://127.0.0.1:1", "Nothing listens on 127.0.0.1:1")]
    [InlineData("fastcgi://unix:/etc/passwd", "/etc/passwd is not a socket")]
    [InlineData("fastcgi://unix:/etc", "/etc is not a socket")]
    public async Task No_connection_is_exit_code_7_with_a_cure(string address, string reason)
    {
        var result = await CommandLine.RunAsync("get", address, "/");

        Assert.Equal(ExitCode.CannotConnect, result.ExitCode);
        Assert.Contains(reason, result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Server_that_accepts_no_connection_is_told_apart_from_one_that_does_not_answer()
    {
        var folder = Directory.CreateTempSubdirectory("millrace-test-");
        using var listener = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
        using var first = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
        try
        {
            var place = new System.Net.Sockets.UnixDomainSocketEndPoint(Path.Combine(folder.FullName, "s"));
            listener.Bind(place);
            listener.Listen(0);
            first.Connect(place);

            var result = await CommandLine.RunAsync("get", "fastcgi://unix:" + place, "/", "--timeout", "5");

            Assert.Equal(ExitCode.CannotConnect, result.ExitCode);
            Assert.Contains($"The queue of {place} is full", result.Error, StringComparison.Ordinal);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    [Fact]
    public async Task Stale_socket_is_told_apart_from_a_missing_one()
    {
        var folder = Directory.CreateTempSubdirectory("millrace-test-");
        try
        {
            string path = Path.Combine(folder.FullName, "s");
            using (var bound = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified))
            {
                bound.Bind(new System.Net.Sockets.UnixDomainSocketEndPoint(path));

                var result = await CommandLine.RunAsync("get", "fastcgi://unix:" + path, "/");

                Assert.Equal(ExitCode.CannotConnect, result.ExitCode);
                Assert.Contains("left over", result.Error, StringComparison.Ordinal);
            }
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }
}
