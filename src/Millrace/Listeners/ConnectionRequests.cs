// A listening TCP socket that takes no new connection, and yet can be accepted from: a filter in the kernel.

using Millrace.Platform;

namespace Millrace.Listeners;

internal static unsafe class ConnectionRequests
{
    // Of the TCP header, which is where a filter of a TCP socket begins to look (RFC 9293, section 3.1).
    private const uint FlagsOffset = 13;
    private const uint Syn = 0x02;

    private const uint Whole = uint.MaxValue;
    private const uint Nothing = 0;

    /// <summary>Has the kernel drop each SYN; all other segments, the last of a handshake among them, pass. False where it has no filters.</summary>
    public static bool TryDrop(int descriptor)
    {
        SystemCalls.FilterInstruction* instructions = stackalloc SystemCalls.FilterInstruction[]
        {
            new() { Code = SystemCalls.BPF_LD | SystemCalls.BPF_B | SystemCalls.BPF_ABS, Operand = FlagsOffset },
            new() { Code = SystemCalls.BPF_JMP | SystemCalls.BPF_JSET | SystemCalls.BPF_K, JumpIfTrue = 0, JumpIfFalse = 1, Operand = Syn },
            new() { Code = SystemCalls.BPF_RET | SystemCalls.BPF_K, Operand = Nothing },
            new() { Code = SystemCalls.BPF_RET | SystemCalls.BPF_K, Operand = Whole },
        };
        var program = new SystemCalls.FilterProgram { Length = 4, Instructions = instructions };
        return SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_ATTACH_FILTER, &program, (uint)sizeof(SystemCalls.FilterProgram)) == 0;
    }
}
