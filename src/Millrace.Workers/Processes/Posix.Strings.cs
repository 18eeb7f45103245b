// Strings for the C library.

using System.Runtime.InteropServices;

namespace Millrace.Workers.Processes;

internal static partial class Posix
{
    /// <summary>Strings as execve(2) takes them: pointers, with a null behind the last.</summary>
    private sealed unsafe class NativeStrings : IDisposable
    {
        private readonly nint[] _strings;

        public NativeStrings(IReadOnlyList<string> strings)
        {
            _strings = [.. strings.Select(Marshal.StringToCoTaskMemUTF8)];
            Pointer = (byte**)NativeMemory.AllocZeroed((nuint)_strings.Length + 1, (nuint)sizeof(byte*));
            for (int i = 0; i < _strings.Length; i++)
            {
                Pointer[i] = (byte*)_strings[i];
            }
        }

        public byte** Pointer { get; }

        public void Dispose()
        {
            Array.ForEach(_strings, Marshal.FreeCoTaskMem);
            NativeMemory.Free(Pointer);
        }
    }
}
