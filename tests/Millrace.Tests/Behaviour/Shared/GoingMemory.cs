// Memory of an application that goes away while the server uses it: a buffer that is given back too early.

using System.Buffers;

namespace Millrace.Tests.Behaviour.Shared;

internal sealed class GoingMemory(byte[] bytes) : MemoryManager<byte>
{
    public bool IsGone { get; set; }

    /// <summary>Called by whoever looks behind that.</summary>
    public Action Looked { get; set; } = static () => { };

    public override Span<byte> GetSpan()
    {
        if (IsGone)
        {
            Looked();
            throw new ObjectDisposedException(nameof(GoingMemory));
        }

        return bytes;
    }

    public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

    public override void Unpin()
    {
    }

    protected override void Dispose(bool disposing)
    {
    }
}
