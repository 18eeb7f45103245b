// What the processes of an application print.

using System.IO.Pipes;
using Millrace.Command.Serving;

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
        for (int i = 0; i < count; i++)
        {
            var end = new AnonymousPipeServerStream(PipeDirection.Out);
            ends.Add(end);
            _ = output.Attach(new AnonymousPipeClientStream(PipeDirection.In, end.ClientSafePipeHandle), before: []);
        }

        await ends[1].WriteAsync("second\n"u8.ToArray());
        Assert.True(await printed.WaitAsync(TimeSpan.FromSeconds(20)));
        async Task WriteFirstAsync()
        {
            for (int i = 0; i < 100; i++)       // it is closed a moment later
            {
                await ends[0].WriteAsync("first\n"u8.ToArray());
                await Task.Delay(10);
            }
        }
        if (isRead)
        {
            await WriteFirstAsync();
            Assert.True(await printed.WaitAsync(TimeSpan.FromSeconds(20)));
            Assert.Contains("first", output.Last(1));
        }
        else
        {
            await Assert.ThrowsAnyAsync<IOException>(WriteFirstAsync);
            Assert.Equal(["second"], output.Last(count));
        }
        ends.ForEach(static end => end.Dispose());
    }
}
