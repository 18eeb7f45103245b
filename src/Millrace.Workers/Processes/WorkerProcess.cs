// A worker that is a process: it has a listening Unix socket as its descriptor 0, as FastCGI wants it (FastCGI 1.0 §2.2), and nobody but its pool knows the address.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Workers.Processes;

namespace Millrace.Workers;

/// <summary>A process of a <see cref="ProcessPool"/>. It belongs to one call at a time; what of it is connected to must be closed, or kept in <see cref="State"/>, when the call ends.</summary>
public sealed class WorkerProcess : IMortal, IAsyncDisposable
{
    private const int BacklogMax = 16;

    // FCGI_GET_VALUES with the name FCGI_MPXS_CONNS (FastCGI 1.0 §4.1): who answers has begun to accept.
    private static readonly byte[] s_question = [1, 9, 0, 0, 0, 17, 0, 0, 15, 0, .. "FCGI_MPXS_CONNS"u8];

    private static readonly TimeSpan s_dying = TimeSpan.FromMilliseconds(50);      // whose connection has ended, or whose last words are on their way

    private static readonly TimeSpan s_ending = TimeSpan.FromSeconds(5);

    private static readonly TimeSpan s_nearlyDead = TimeSpan.FromSeconds(1);

    private readonly ProcessPoolOptions _options;
    private readonly Guardian _guardian;
    private readonly ProcessVoice _voice;
    private readonly PlacedSocket _socket;
    private readonly EndPoint _endPoint;
    private readonly ChildOutput _output;
    private readonly TaskCompletionSource<Death> _death = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Lock _lock = new();
    private int _descriptor;        // -1: it has ended
    private WorkerEnd _killedFor;
    private volatile bool _isSought;        // somebody connects to it, as far as can be told

    private WorkerProcess(ProcessPoolOptions options, PlacedSocket socket, Guardian guardian, ProcessVoice voice, int id, int descriptor, int output)
    {
        _options = options;
        _guardian = guardian;
        _voice = voice;
        _socket = socket;
        _descriptor = descriptor;
        ProcessId = id;
        _endPoint = socket.EndPoint;
        Reaper.Watch(id, descriptor, OnEnded);
        _output = new ChildOutput(output, line => voice.Printed(id, line));
    }

    /// <summary>The kernel's number of it.</summary>
    public int ProcessId { get; }

    /// <summary>Where it listens: an address that means something in this process alone. Each process has its own.</summary>
    public EndPoint EndPoint
    {
        get
        {
            _isSought = true;
            return _endPoint;
        }
    }

    /// <summary>What its callers keep with it, such as a connection. Disposed of with the worker where it is <see cref="IDisposable"/>. Default null.</summary>
    public object? State { get; set; }

    /// <summary>Whether the process has ended.</summary>
    public bool HasExited => _death.Task.IsCompleted;

    /// <summary>Ends when it has: its connections need not, where something that it has started has them too.</summary>
    internal Task Exited => _death.Task;

    /// <summary>Says that a call has left it in a state in which it can have no other: it is killed, unless it is ending already, and another takes its place when the call has ended.</summary>
    /// <param name="why">For the log, to be read behind "it was killed: ".</param>
    /// <returns>Ends when the process has.</returns>
    public async Task GiveUpAsync(string why)
    {
        if (await WaitForExitAsync(s_dying).ConfigureAwait(false))
        {
            return;
        }
        string facts = await KillAsync(WorkerEnd.Abandoned).ConfigureAwait(false);
        _voice.GivenUp(ProcessId, why, facts);
        _ = await _death.Task.ConfigureAwait(false);
    }

    /// <summary>Waits for the end of the process. One that the kernel is taking down, whose connections may have ended while it still seems to take new ones, is waited for 5 seconds longer.</summary>
    /// <param name="limit">For so long at most otherwise; not negative.</param>
    /// <returns>Whether it has ended.</returns>
    public async Task<bool> WaitForExitAsync(TimeSpan limit) =>
        await EndsWithinAsync(limit).ConfigureAwait(false) || (IsEnding() && await EndsWithinAsync(s_ending).ConfigureAwait(false));

    // Or has ended, and OnEnded is to come.
    private bool IsEnding()
    {
        lock (_lock)
        {
            return _descriptor < 0 || Posix.IsTaken(_descriptor) || ProcessFacts.IsEnding(ProcessId);
        }
    }

    private async Task<bool> EndsWithinAsync(TimeSpan limit) => await Task.WhenAny(_death.Task, Task.Delay(limit)).ConfigureAwait(false) == _death.Task;

    // ---- its pool's ----

    Task<Death> IMortal.Death => _death.Task;

    WorkerEnd IMortal.Wish =>
        HasExited ? _death.Task.Result.Reason
        : _options.RecycleAboveMemory is { } max && ProcessFacts.Memory(ProcessId) > max ? WorkerEnd.Memory
        : WorkerEnd.None;

    // A connection to one that has not answered yet says nothing: it may wait in the queue of its socket for ever.
    bool IMortal.IsUntried => _options.Ready == ProcessReady.Starts || !_isSought;

    /// <summary>What the kernel says it uses now; null: it has ended.</summary>
    internal long? Memory => ProcessFacts.Memory(ProcessId);

    Task<string> IMortal.KillAsync(WorkerEnd reason) => KillAsync(reason);

    internal async Task<string> KillAsync(WorkerEnd reason)
    {
        try
        {
            return await _options.Describe(ProcessId, _options.StackCommand).ConfigureAwait(false);
        }
        catch (Exception error)
        {
            return $"What process {ProcessId} was doing could not be seen: {error.Message}";
        }
        finally
        {
            KillNow(reason);        // whatever keeps it from being looked at
        }
    }

    internal void KillNow(WorkerEnd reason)
    {
        lock (_lock)
        {
            _killedFor = _killedFor == WorkerEnd.None ? reason : _killedFor;
        }
        Signal(Posix.SigKill);
    }

    /// <summary>Starts a process, and waits until it answers.</summary>
    /// <param name="options">Judged already.</param>
    /// <param name="folder">Where its socket is.</param>
    /// <param name="guardian">Kills it when this process cannot.</param>
    /// <param name="voice">Is told what it prints.</param>
    /// <param name="ct">The pool has ended.</param>
    /// <exception cref="IOException">It cannot be started, or has ended at once.</exception>
    /// <exception cref="TimeoutException">It does not answer.</exception>
    internal static async Task<WorkerProcess> StartAsync(ProcessPoolOptions options, SocketFolder folder, Guardian guardian, ProcessVoice voice, CancellationToken ct)
    {
        WorkerProcess child = Start(options, folder, guardian, voice);
        try
        {
            await child.WaitUntilReadyAsync(ct).ConfigureAwait(false);
            return child;
        }
        catch
        {
            child.KillNow(WorkerEnd.StartFailed);
            _ = await child._death.Task.ConfigureAwait(false);
            await child.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    private static WorkerProcess Start(ProcessPoolOptions options, SocketFolder folder, Guardian guardian, ProcessVoice voice)
    {
        // Its listening socket is in no other process's hands: when it ends, whoever would connect is refused at once.
        PlacedSocket socket = folder.Listen(BacklogMax, out int listener);
        (int Ours, int Theirs)? pair = null;
        try
        {
            pair = Posix.Pair();
            int id = Posix.Spawn(options.Command, [options.Command, .. options.Arguments], options.CompleteEnvironment(), options.WorkingDirectory, listener, pair.Value.Theirs);
            guardian.Add(id);
            return Hold(id, guardian, descriptor => new WorkerProcess(options, socket, guardian, voice, id, descriptor, pair.Value.Ours));
        }
        catch
        {
            socket.Remove();
            if (pair is not null)
            {
                Posix.Close(pair.Value.Ours);
            }
            throw;
        }
        finally
        {
            Posix.Close(listener);
            if (pair is not null)
            {
                Posix.Close(pair.Value.Theirs);
            }
        }
    }

    // A process that cannot be watched, for want of descriptors, does not stay.
    private static WorkerProcess Hold(int id, Guardian guardian, Func<int, WorkerProcess> make)
    {
        int descriptor = -1;
        try
        {
            descriptor = Posix.OpenProcess(id);
            return make(descriptor);
        }
        catch
        {
            Posix.KillChild(id);
            guardian.Remove(id);
            if (descriptor >= 0)
            {
                Posix.Close(descriptor);
            }
            throw;
        }
    }

    // ---- ready ----

    private async Task WaitUntilReadyAsync(CancellationToken ct)
    {
        if (_options.Ready == ProcessReady.Starts)
        {
            return;
        }
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(_options.StartLimit);
        Task answer = AskAsync(limit.Token);
        if (await Task.WhenAny(answer, _death.Task).ConfigureAwait(false) == _death.Task)
        {
            _ = limit.CancelAsync();
            await answer.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            throw await DiedAsync().ConfigureAwait(false);
        }
        try
        {
            await answer.ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new TimeoutException(string.Create(CultureInfo.InvariantCulture,
                $"{_options.Command} (process {ProcessId}) has not answered FCGI_GET_VALUES on its descriptor 0 within {_options.StartLimit.TotalSeconds:0.###} s (StartLimit). If it never does, set Ready to Starts.{Printed()}"));
        }
        catch (SocketException error)
        {
            if (await WaitForExitAsync(s_nearlyDead).ConfigureAwait(false))
            {
                throw await DiedAsync().ConfigureAwait(false);
            }
            throw Failed($"it cannot be connected to: {error.Message}");
        }
    }

    // What it has said last may come behind its end.
    private async Task<IOException> DiedAsync()
    {
        _ = await Task.WhenAny(_output.Ended, Task.Delay(s_nearlyDead)).ConfigureAwait(false);
        return Failed(_death.Task.Result.Cause.Message);
    }

    private IOException Failed(string why) => new($"{_options.Command} (process {ProcessId}) has not come to answer: {why}{Printed()}");

    private string Printed() => _output.Last.Length == 0 ? "" : $" It said: {_output.Last}";

    // An answer, or the end of the connection by a program that has read the question: both are of one that accepts.
    private async Task AskAsync(CancellationToken ct)
    {
        using var socket = ClientSocket.New();
        await socket.ConnectAsync(_endPoint, ct).ConfigureAwait(false);
        _ = await socket.SendAsync(s_question, SocketFlags.None, ct).ConfigureAwait(false);
        _ = await socket.ReceiveAsync(new byte[256], SocketFlags.None, ct).ConfigureAwait(false);
    }

    // ---- the end ----

    private void Signal(int signal)
    {
        lock (_lock)
        {
            if (_descriptor >= 0)
            {
                Posix.Send(_descriptor, signal);
            }
        }
    }

    private void OnEnded(int? how)
    {
        WorkerEnd reason;
        lock (_lock)
        {
            Posix.Close(_descriptor);
            _descriptor = -1;
            reason = _killedFor == WorkerEnd.None ? WorkerEnd.Exited : _killedFor;
        }
        _guardian.Remove(ProcessId);
        _socket.Remove();
        _ = _death.TrySetResult(new Death(reason, new IOException(how switch
        {
            null => "it has ended.",
            > 128 => string.Create(CultureInfo.InvariantCulture, $"signal {how - 128} has ended it."),
            _ => string.Create(CultureInfo.InvariantCulture, $"it has ended with exit code {how}."),
        })));
    }

    /// <summary>Ends the process: asks it to (SIGTERM), and kills it behind <see cref="ProcessPoolOptions.StopLimit"/>. Its pool does so.</summary>
    public async ValueTask DisposeAsync()
    {
        (State as IDisposable)?.Dispose();
        State = null;
        bool hasDied = HasExited;
        lock (_lock)
        {
            _killedFor = _killedFor == WorkerEnd.None ? WorkerEnd.Closed : _killedFor;      // whatever it is that ends it
        }
        Signal(Posix.SigTerm);
        if (!await WaitForExitAsync(_options.StopLimit).ConfigureAwait(false))
        {
            _voice.HadToBeKilled(ProcessId);
            Signal(Posix.SigKill);
            _ = await _death.Task.ConfigureAwait(false);
        }
        if (await Task.WhenAny(_output.Ended, Task.Delay(hasDied ? s_dying : s_nearlyDead)).ConfigureAwait(false) == _output.Ended)
        {
            _output.Dispose();
            return;
        }
        _ = LeaveOutputAsync();
    }

    // Something that it has started may go on, and print: no place is kept empty for that.
    private async Task LeaveOutputAsync()
    {
        _ = await Task.WhenAny(_output.Ended, Task.Delay(s_ending)).ConfigureAwait(false);
        _output.Dispose();
    }
}
