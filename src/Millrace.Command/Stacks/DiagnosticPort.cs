// The socket on which the runtime of a .NET process listens for who wants to look at it (dotnet/diagnostics, documentation/design-docs/ipc-protocol.md): one question, one answer.
// It lies where anybody may make files; only one on which the process itself listens is asked.
//
//   message = "DOTNET_IPC_V1" NUL, size of all (2 bytes), command set (1), command (1), 0 (2), payload

using System.Buffers.Binary;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Stacks;

internal static class DiagnosticPort
{
    private const int HeadSize = 20;
    private const int SizeAt = 14;
    private const int SetAt = 16;
    private const byte DumpSet = 1;
    private const byte CreateDump = 1;
    private const int Triage = 3;       // stacks and what they lead to
    private const byte AnswerSet = 0xFF;
    private const byte Ok = 0;

    private static ReadOnlySpan<byte> Magic => "DOTNET_IPC_V1\0"u8;

    /// <summary>Has the runtime write a dump that stacks can be read from.</summary>
    /// <param name="process">Whose.</param>
    /// <param name="path">Where to, as the process sees it.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="IOException">It does not listen, or could not do it.</exception>
    /// <exception cref="SocketException">It has ended meanwhile.</exception>
    public static async Task DumpAsync(int process, string path, CancellationToken ct)
    {
        using var socket = await ConnectAsync(process, ct);
        await using var stream = new NetworkStream(socket);
        await stream.WriteAsync(Question(path), ct);
        byte[] answer = new byte[HeadSize + sizeof(int)];
        await stream.ReadExactlyAsync(answer, ct);
        if (!answer.AsSpan().StartsWith(Magic) || answer[SetAt] != AnswerSet || answer[SetAt + 1] != Ok)
        {
            throw new IOException(string.Create(CultureInfo.InvariantCulture, $"its runtime has not written them (0x{BinaryPrimitives.ReadInt32LittleEndian(answer.AsSpan(HeadSize)):X8})."));
        }
    }

    /// <summary>The socket of a process among the files of that name, which may be anybody's.</summary>
    private static async Task<Socket> ConnectAsync(int process, CancellationToken ct)
    {
        uint?[] owners = [FileFacts.At(string.Create(CultureInfo.InvariantCulture, $"/proc/{process}"), out _)?.User, SystemCalls.GetEffectiveUser()];      // it may hide the first
        string folder = Path.GetTempPath();
        foreach (string path in Directory.GetFiles(folder, string.Create(CultureInfo.InvariantCulture, $"dotnet-diagnostic-{process}-*-socket")).Where(path => FileFacts.At(path, out _) is { } facts && owners.Contains(facts.User)))
        {
            var socket = UnixSocket.New();
            try
            {
                await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), ct);
                if (DescriptorPassing.Peer((int)socket.Handle).Process == process)
                {
                    return socket;
                }
            }
            catch (SocketException)
            {
                // Of a process before it, that had its number.
            }
            catch
            {
                socket.Dispose();
                throw;
            }
            socket.Dispose();
        }
        throw new IOException($"it has no .NET runtime that listens in {folder}.");
    }

    // payload = path (number of characters with a 0 behind them, 4 bytes; UTF-16), kind (4), flags (4)
    private static byte[] Question(string path)
    {
        byte[] text = Encoding.Unicode.GetBytes(path + "\0");
        byte[] question = new byte[HeadSize + sizeof(int) + text.Length + (2 * sizeof(int))];
        Magic.CopyTo(question);
        BinaryPrimitives.WriteUInt16LittleEndian(question.AsSpan(SizeAt), (ushort)question.Length);
        (question[SetAt], question[SetAt + 1]) = (DumpSet, CreateDump);
        BinaryPrimitives.WriteInt32LittleEndian(question.AsSpan(HeadSize), text.Length / 2);
        text.CopyTo(question, HeadSize + sizeof(int));
        BinaryPrimitives.WriteInt32LittleEndian(question.AsSpan(HeadSize + sizeof(int) + text.Length), Triage);
        return question;
    }
}
