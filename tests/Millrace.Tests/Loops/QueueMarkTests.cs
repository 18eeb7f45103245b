// Up to when a mark in the event queue says that everybody has been heard.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

public sealed class QueueMarkTests
{
    private const long Nothing = long.MinValue;

    [Fact]
    public void It_tells_nothing_before_it_comes_and_once_when_it_has_come_what_it_was_put_for()
    {
        var mark = default(QueueMark);
        Assert.Equal(Nothing, mark.Take());
        Assert.True(mark.TryPut(10));
        Assert.Equal(Nothing, mark.Take());
        mark.Note(IKernel.WakeToken);
        Assert.Equal(Nothing, mark.Take());
        mark.Note(IKernel.MarkToken);
        Assert.Equal(10, mark.Take());
        Assert.Equal(Nothing, mark.Take());
        Assert.True(mark.TryPut(20));
    }

    [Fact]
    public void There_is_one_on_its_way_at_most()
    {
        var mark = default(QueueMark);
        Assert.True(mark.TryPut(10));
        Assert.False(mark.TryPut(20));
        mark.Note(IKernel.MarkToken);
        Assert.Equal(10, mark.Take());
    }
}
