// What is said of an application is no longer than somebody reads, whoever has put names into its folder.

using System.Runtime.Versioning;
using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class SentenceTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(Sentence.LengthMax, Sentence.LengthMax)]
    [InlineData(Sentence.LengthMax + 1, Sentence.LengthMax)]
    [InlineData(5_000_000, Sentence.LengthMax)]
    public void The_middle_of_a_long_one_is_counted_and_its_end_stays(int length, int most)
    {
        string cut = Sentence.Of(new string('a', length - 8) + "the cure");

        Assert.InRange(cut.Length, most - 64, most);
        Assert.Equal(length > Sentence.LengthMax, cut.Contains(" characters more) ... ", StringComparison.Ordinal));
        Assert.EndsWith("the cure", cut, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("")]
    [InlineData("a")]
    public void Two_halves_of_a_character_stay_together(string before)
    {
        string cut = Sentence.Of(before + string.Concat(Enumerable.Repeat("\U0001F600", 3_000)));
        Assert.DoesNotContain("\uFFFD", System.Text.Encoding.UTF8.GetString(System.Text.Encoding.UTF8.GetBytes(cut)), StringComparison.Ordinal);
    }

    // A file may be called anything.
    [Fact]
    public void Nothing_in_it_begins_a_line_that_looks_like_another_sentence()
    {
        string said = Sentence.Of("A.dll, a\nphp: generation 99 serves\n\n  b.dll");

        Assert.Equal("A.dll, a\n    php: generation 99 serves\n    \n      b.dll", said);
        Assert.Equal(said, Sentence.Of(said));
        var app = new AppStatus("shop", "waiting", said, [], 0, 0, 0, null, null, [], []);
        string[] lines = StatusTable.Of(new DaemonStatus(7, "1.0.0", "/f", DateTimeOffset.UnixEpoch, 0, null, [app]), DateTimeOffset.UnixEpoch, colour: false).Split('\n');
        Assert.Equal(["APP", "shop", "    A.dll, a", "        php: generation 99 serves"], [lines[0][..3], lines[1][..4], .. lines[2..4]]);
    }

    [Theory]
    [InlineData("a\u202Eb\u2066c\u200Fd", "a\uFFFDb\uFFFDc\uFFFDd")]
    [InlineData("a\u2028b\u2029c\u0085d\u001b[2Je\r", "a\uFFFDb\uFFFDc\uFFFDd\uFFFD[2Je\uFFFD")]
    [InlineData("\uDB40\uDC41tag", "\uFFFD\uFFFDtag")]
    [InlineData("\tEin \U0001F600 für \u05D0\u0628 \uD83D", "\tEin \U0001F600 für \u05D0\u0628 \uD83D")]
    public void What_would_be_obeyed_or_turn_the_writing_round_is_not_shown(string text, string shown)
    {
        Assert.Equal(shown, CommandConsole.Readable(text));
        Assert.Equal(shown + "\n", CommandConsole.Readable(text + "\n", keepsLines: true));
        Assert.Equal(shown + "\uFFFD", CommandConsole.Readable(text + "\n"));
    }

    [Theory]
    [InlineData(FoundNames.SaidMax, "Name one: A00000.dll, A00001.dll, A00002.dll, A00003.dll, A00004.dll.")]
    [InlineData(FoundNames.SaidMax + 1, "Name one: A00000.dll, A00001.dll, A00002.dll, A00003.dll, A00004.dll and 1 more.")]
    [InlineData(3_000, "Name one: A00000.dll, A00001.dll, A00002.dll, A00003.dll, A00004.dll and 2,995 more.")]
    public void Of_many_applications_in_a_folder_a_few_are_named(int count, string end)
    {
        string target = FolderOf(count, ".runtimeconfig.json");
        Assert.EndsWith($"'{target}' holds {count} applications. {end}", Assert.Throws<CommandFailure>(() => AppTarget.FindApp(target)).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Of_many_projects_in_a_folder_a_few_are_named()
    {
        string target = FolderOf(3_000, ".csproj");
        Assert.EndsWith("A00004.csproj and 2,995 more.", Assert.Throws<CommandFailure>(() => AppTarget.FindProject(target)).Message, StringComparison.Ordinal);
    }

    // Whoever has made it: here it is the path of the target.
    [Fact]
    public async Task Nothing_longer_becomes_a_reason_an_event_a_line_or_an_answer()
    {
        using var printed = new MemoryStream();
        var output = new SteadyOutput(printed, Stream.Null);
        var settings = new AppSettings { Name = "app", Target = "/" + new string('a', 1_000_000), Urls = [_folder.NewAddress("http")], TriesAgain = false };
        AppStatus status;
        string? answer;
        await using (var app = new HostedApp(settings, new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code"))), AppVoice.Among("app", output)))
        {
            answer = await app.DeployAsync();
            status = app.Status;
        }
        await output.FlushAsync(TimeSpan.FromSeconds(20));

        Assert.StartsWith("There is no '/aaa", answer, StringComparison.Ordinal);
        Assert.All([answer!, status.Reason!, .. status.Events.Select(static each => each.What)], static said => Assert.InRange(said.Length, 1, Sentence.LengthMax));
        Assert.InRange(printed.Length, 1, 2 * Sentence.LengthMax);
    }

    private string FolderOf(int count, string ending)
    {
        string target = Directory.CreateDirectory(_folder.PathOf("target")).FullName;
        for (int i = 0; i < count; i++)
        {
            File.WriteAllText(Path.Combine(target, FormattableString.Invariant($"A{i:00000}{ending}")), "");
        }
        return target;
    }
}
