// The site of the soak: scripts that do what scripts do on bad days, each of which leaves a mark when it is called; and a program that stands in for php-cgi now and then, and speaks FastCGI badly or not at all.

using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Programs;

internal sealed class SoakSite : IDisposable
{
    private const string Wild = "wild";
    private const string Marks = "marks";

    // Descriptor 0 is the listening socket; what it is asked comes one after the other.
    private const string HostileProgram = """
        use strict; use Socket;
        my $folder = shift; my $turn = $$;
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
                next unless $type == 4 && $params =~ m{PATH_INFO/([su]\d+)};
                my $id = $1; $params = "";
                open(my $marks, ">>", "$folder/marks"); syswrite($marks, "$id\n"); close $marks;
                my $end = record(3, pack("NCxxx", 0, 0));
                my $answer = record(6, "Content-Type: text/plain\r\n\r\nhostile $id") . record(6, "") . $end;
                my $what = $turn++ % 8;
                if ($what == 0) { print $peer "HTTP/1.1 200 OK\r\n\r\nhostile"; pause(60) }
                if ($what == 1) { last }
                if ($what == 2) { print $peer substr($answer, 0, 30); pause(60) }
                if ($what == 3) { print $peer $end; next }
                if ($what == 4) { pause(0.4) }
                if ($what == 5) { exit 7 }
                if ($what == 6) { print $peer substr($answer, 0, 30); last }
                print $peer $answer;
            }
            close $peer;
        }
        """;

    private readonly TemporaryDirectory _folder = new("soak");

    public SoakSite()
    {
        Directory.CreateDirectory(Root);
        Write("ok", "echo \"ok $id \", $_SERVER['REQUEST_METHOD'] == 'POST' ? hash('sha256', file_get_contents('php://input')) : '';");
        Write("slow", "while (ob_get_level()) ob_end_flush(); for ($i = 0; $i < 10; $i++) { echo str_repeat(\"$id \", 400); flush(); usleep(10000); }");
        Write("crash", "posix_kill(getmypid(), 9); sleep(60);");
        Write("midway", "while (ob_get_level()) ob_end_flush(); header('Content-Length: 100000'); echo str_repeat('x', 20000); flush(); posix_kill(getmypid(), 9); sleep(60);");
        Write("hang", "sleep(60);");
        Write("leak", "ini_set('memory_limit', '-1'); $kept = str_repeat('x', 160 << 20); sleep(60);");
        Write("flood", "for ($i = 0; $i < 2000; $i++) error_log(\"$id says line $i\"); echo \"ok $id \";");
        Write("broken", "header('Content-Length: 3'); echo str_repeat('x', 5000);");
        Write("meet", $"touch('{_folder.Path}/met' . getmypid()); while (count(glob('{_folder.Path}/met*')) < (int)$_GET['of']) usleep(5000); echo \"ok $id \";");
    }

    public string Root => Path.Combine(_folder.Path, "www");

    /// <summary>What all of it lies in. Every process of the pool has it in its environment, as SOAK_FOLDER.</summary>
    public string Folder => _folder.Path;

    /// <summary>Whether some of the processes that are started end at once, and some are no php-cgi.</summary>
    public bool IsWild
    {
        set
        {
            if (value)
            {
                File.WriteAllText(Path.Combine(Folder, Wild), "");
                return;
            }

            File.Delete(Path.Combine(Folder, Wild));
        }
    }

    /// <summary>Arguments of a shell that becomes a process of the pool.</summary>
    public IReadOnlyList<string> Start => ["-c", $"[ -e '{Folder}/{Wild}' ] && case $(($$ % 12)) in 0) echo 'no database' >&2; exit 3;; 1|2) exec perl -e \"$0\" '{Folder}';; esac; exec php-cgi", HostileProgram];

    /// <summary>The id of each request that a process has begun with, as often as it has.</summary>
    public IEnumerable<string> ReadMarks() => File.ReadLines(Path.Combine(Folder, Marks));

    /// <summary>Those who waited for each other have gone.</summary>
    public void ForgetMeeting()
    {
        foreach (string file in Directory.GetFiles(Folder, "met*"))
        {
            File.Delete(file);
        }
    }

    /// <summary>Processes that its pool has started, and that are there.</summary>
    public int[] Processes() => [.. Directory.GetDirectories("/proc").Select(Path.GetFileName).Where(static name => char.IsAsciiDigit(name![0])).Where(IsOurs!).Select(int.Parse!)];

    private bool IsOurs(string process)
    {
        try
        {
            return File.ReadAllText($"/proc/{process}/environ").Contains($"SOAK_FOLDER={Folder}\0", StringComparison.Ordinal);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return false;       // it has just ended, or is somebody else's
        }
    }

    private void Write(string name, string script) =>
        File.WriteAllText(Path.Combine(Root, $"{name}.php"), $"<?php $id = substr($_SERVER['PATH_INFO'], 1); file_put_contents('{Folder}/{Marks}', \"$id\\n\", FILE_APPEND); header('Content-Type: text/plain'); {script}");

    public void Dispose() => _folder.Dispose();
}
