// A cache that counts, can be held, and can be lost.

using System.Collections.Concurrent;
using Microsoft.Extensions.Caching.Distributed;

namespace Millrace.Sessions.Tests.Site;

internal sealed class SwitchedCache : IDistributedCache
{
    private readonly ConcurrentDictionary<string, byte[]> _entries = new();
    private readonly TaskCompletionSource _reader = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private TaskCompletionSource? _held;
    private TaskCompletionSource? _answer;
    private TaskCompletionSource? _heldAnswer;

    public bool IsLost { get; set; }

    public int Count => _entries.Count;

    public int Reads { get; private set; }

    public int Writes { get; private set; }

    public int Refreshes { get; private set; }

    public int CallsWhileLost { get; private set; }

    public void Hold() => _held = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    public void Release() => _held!.SetResult();

    /// <summary>The next that reads is told what there is now, but not before it is released.</summary>
    public void HoldOneAnswer() => _answer = _heldAnswer = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    public void ReleaseAnswer() => _heldAnswer!.SetResult();

    public Task WaitForReaderAsync() => _reader.Task;

    public void Spoil(byte[] entry)
    {
        foreach (string key in _entries.Keys)
        {
            _entries[key] = entry;
        }
    }

    public byte[]? Get(string key)
    {
        (byte[]? entry, Task answer) = Read(key);
        answer.Wait();
        return entry;
    }

    public async Task<byte[]?> GetAsync(string key, CancellationToken token = default)
    {
        if (_held is { } held)
        {
            _reader.TrySetResult();
            await held.Task;
        }
        (byte[]? entry, Task answer) = Read(key);
        await answer;
        return entry;
    }

    public void Set(string key, byte[] value, DistributedCacheEntryOptions options)
    {
        Check();
        Writes++;
        _entries[key] = value;
    }

    public Task SetAsync(string key, byte[] value, DistributedCacheEntryOptions options, CancellationToken token = default)
    {
        Set(key, value, options);
        return Task.CompletedTask;
    }

    public void Refresh(string key)
    {
        Check();
        Refreshes++;
    }

    public Task RefreshAsync(string key, CancellationToken token = default)
    {
        Refresh(key);
        return Task.CompletedTask;
    }

    public void Remove(string key) => _entries.TryRemove(key, out _);

    public Task RemoveAsync(string key, CancellationToken token = default)
    {
        Remove(key);
        return Task.CompletedTask;
    }

    private (byte[]? Entry, Task Answer) Read(string key)
    {
        Check();
        Reads++;
        byte[]? entry = _entries.GetValueOrDefault(key);
        if (Interlocked.Exchange(ref _answer, null) is not { } answer)
        {
            return (entry, Task.CompletedTask);
        }
        _reader.TrySetResult();
        return (entry, answer.Task);
    }

    private void Check()
    {
        if (IsLost)
        {
            CallsWhileLost++;
            throw new IOException("The cache does not answer.");
        }
    }
}
