// What the processes of an application print.

using System.IO.Pipes;
using Millrace.Command.Serving;
using Millrace.Platform;

namespace Millrace.Tests.Command;

public sealed class AppOutputTests
{
    // Processes that crash, and leave something behind that has their output.
    [Theory]
    [InlineData(AppOutput.PipesMax, true)]
    [InlineData(AppOutput.PipesMax + 1, false)]
    public async Task Of_too_many_pipes_the_oldest_is_closed(int count, bool isRead)
    {
        using var printed = new SemaphoreSlim(0);
        var output = new AppOutput(_ =>
        {
            printed.Release();
            return default;
        });
        var ends = new List<AnonymousPipeServerStream>();
        var pumps = new List<OutputPump>();
        try
        {
            for (int i = 0; i < count; i++)
            {
                var end = new AnonymousPipeServerStream(PipeDirection.Out);
                ends.Add(end);
                pumps.Add(output.Attach(new AnonymousPipeClientStream(PipeDirection.In, end.ClientSafePipeHandle), before: []));
            }

            await ends[1].WriteAsync("second\n"u8.ToArray());
            Assert.True(await printed.WaitAsync(TimeSpan.FromSeconds(20)));
            if (isRead)
            {
                await ends[0].WriteAsync("first\n"u8.ToArray());
                Assert.True(await printed.WaitAsync(TimeSpan.FromSeconds(20)));
                Assert.Contains("first", output.Last(1));
            }
            else
            {
                string pipe = new FileInfo(SystemCalls.PathOf((int)ends[0].SafePipeHandle.DangerousGetHandle())).LinkTarget!;
                Assert.True(await IsClosedAsync(ends[0]), $"Who has it open: {string.Join(", ", WhoHas(pipe))}; read ends that have ended: {string.Join(", ", pumps.Index().Where(static its => its.Item.Ended.IsCompleted).Select(static its => its.Index))}.");
                Assert.Equal(["second"], output.Last(count));
            }
        }
        finally
        {
            ends.ForEach(static end => end.Dispose());
        }
    }

    // An upgrade, or a daemon that is killed: who writes does not wait while the next one starts.
    [Fact]
    public async Task So_many_pipes_have_room_for_256_KiB_that_nobody_reads_and_the_others_what_the_system_gives_them()
    {
        Assert.Equal((256 * 1024, 64), (PipeRoom.Bytes, PipeRoom.PipesMax));
        var output = new AppOutput(static _ => default) { Room = new PipeRoom(2) };
        using var first = new AnonymousPipeServerStream(PipeDirection.Out);
        using var second = new AnonymousPipeServerStream(PipeDirection.Out);
        using var third = new AnonymousPipeServerStream(PipeDirection.Out);
        using var fourth = new AnonymousPipeServerStream(PipeDirection.Out);
        int given = RoomOf(first);
        Assert.True(given < PipeRoom.Bytes);

        var ended = Attach(first);
        Attach(second);
        Attach(third);
        Assert.Equal([PipeRoom.Bytes, PipeRoom.Bytes, given], ((AnonymousPipeServerStream[])[first, second, third]).Select(RoomOf));

        first.Dispose();
        await ended.Ended.WaitAsync(TimeSpan.FromSeconds(20));
        Assert.True(SpinWait.SpinUntil(() => output.Room.TryWiden(third), TimeSpan.FromSeconds(20)));
        ended.Dispose();        // counts once
        Attach(fourth);
        Assert.Equal(given, RoomOf(fourth));

        OutputPump Attach(AnonymousPipeServerStream end) => output.Attach(new AnonymousPipeClientStream(PipeDirection.In, end.ClientSafePipeHandle), before: []);

        static int RoomOf(AnonymousPipeServerStream end) => SystemCalls.Fcntl((int)end.SafePipeHandle.DangerousGetHandle(), SystemCalls.F_GETPIPE_SZ, 0);
    }

    // A moment later: until then what is written waits in it.
    private static async Task<bool> IsClosedAsync(AnonymousPipeServerStream end)
    {
        for (long begun = Environment.TickCount64; Environment.TickCount64 - begun < 20_000; await Task.Delay(10))
        {
            try
            {
                await end.WriteAsync("first\n"u8.ToArray());
            }
            catch (IOException)
            {
                return true;
            }
        }
        return false;
    }

    private static IEnumerable<string> WhoHas(string pipe) =>
        from process in Directory.EnumerateDirectories("/proc").Where(static path => char.IsAsciiDigit(Path.GetFileName(path)[0]))
        from descriptor in Descriptors(Path.Combine(process, "fd"))
        where new FileInfo(descriptor).LinkTarget == pipe
        select descriptor;

    private static string[] Descriptors(string folder)
    {
        try
        {
            return Directory.GetFiles(folder);
        }
        catch (IOException)
        {
            return [];      // the process has ended
        }
    }
}
