// A native library that is not thread-safe, compiled for this test: a million calls through a pool without a wrong answer, and wrong ones without the pool.

using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Millrace.Workers.Tests;

public sealed class NativeTests : IDisposable
{
    private const int Calls = 1_000_000;
    private const int Callers = 64;

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-fragile-");
    private readonly Library _library;

    public NativeTests() => _library = Library.Compile(_folder.FullName);

    public void Dispose()
    {
        _library.Dispose();
        _folder.Delete(recursive: true);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_million_calls_through_a_pool_are_all_right(bool isThreadBound)
    {
        long wrong = 0;
        await using var pool = new WorkerPool<Engine>(() => new Engine(_library), new() { Min = 3, Max = 3, ThreadBound = isThreadBound, RecycleAfterCalls = 50_000 });
        await Task.WhenAll(Enumerable.Range(0, Callers).Select(caller => Task.Run(async () =>
        {
            for (int i = 0; i < Calls / Callers; i++)
            {
                ulong text = (ulong)((caller * Calls) + i);
                (bool isAlone, bool isOwner, ulong answer) = await pool.RunAsync((engine, _) => engine.Hash(text));
                if (!isAlone || answer != Engine.Expected(text) || (isThreadBound && !isOwner))
                {
                    Interlocked.Increment(ref wrong);
                }
            }
        })));
        Assert.Equal(0, wrong);
        Assert.Equal(Calls, pool.GetStatus().Calls);
    }

    [Fact]
    public void Without_a_pool_answers_are_wrong()
    {
        using var engine = new Engine(_library);
        int wrong = 0;
        Thread[] threads = [.. Enumerable.Range(0, 4).Select(caller => new Thread(() =>
        {
            var watch = Stopwatch.StartNew();
            for (ulong i = 0; Volatile.Read(ref wrong) == 0 && watch.Elapsed < TimeSpan.FromMinutes(2); i++)
            {
                (bool isAlone, _, ulong answer) = engine.Hash(i);
                if (!isAlone || answer != Engine.Expected(i))
                {
                    Interlocked.Increment(ref wrong);
                }
            }
        }))];
        Array.ForEach(threads, static thread => thread.Start());
        Array.ForEach(threads, static thread => thread.Join());
        Assert.True(wrong > 0, "the library has not noticed that several threads used it at once, so that the other test proves nothing");
    }

    private sealed unsafe class Engine(Library library) : IDisposable
    {
        private readonly void* _engine = library.New();

        public (bool IsAlone, bool IsOwner, ulong Answer) Hash(ulong text)
        {
            ulong answer;
            bool isAlone = library.Hash(_engine, text, &answer) == 0;
            return (isAlone, library.IsOwner(_engine) != 0, answer);
        }

        public static ulong Expected(ulong state)
        {
            for (int i = 0; i < 64; i++)
            {
                state ^= state >> 31;
                state = (state * 0x9E3779B97F4A7C15) + (ulong)i;
            }
            return state;
        }

        public void Dispose() => library.Free(_engine);
    }

    private sealed unsafe class Library(nint handle) : IDisposable
    {
        public readonly delegate* unmanaged<void*> New = (delegate* unmanaged<void*>)NativeLibrary.GetExport(handle, "fragile_new");
        public readonly delegate* unmanaged<void*, ulong, ulong*, int> Hash = (delegate* unmanaged<void*, ulong, ulong*, int>)NativeLibrary.GetExport(handle, "fragile_hash");
        public readonly delegate* unmanaged<void*, int> IsOwner = (delegate* unmanaged<void*, int>)NativeLibrary.GetExport(handle, "fragile_is_owner");
        public readonly delegate* unmanaged<void*, void> Free = (delegate* unmanaged<void*, void>)NativeLibrary.GetExport(handle, "fragile_free");

        public static Library Compile(string folder)
        {
            string output = Path.Combine(folder, "fragile.so");
            using Process gcc = Process.Start(new ProcessStartInfo("gcc", ["-O1", "-shared", "-fPIC", "-o", output, Path.Combine(AppContext.BaseDirectory, "Native/fragile.c")]) { RedirectStandardError = true })!;
            string said = gcc.StandardError.ReadToEnd();
            gcc.WaitForExit();
            Assert.True(gcc.ExitCode == 0, said);
            return new Library(NativeLibrary.Load(output));
        }

        public void Dispose() => NativeLibrary.Free(handle);
    }
}
