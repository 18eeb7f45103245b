// In which order what an application writes leaves. Writes may come while another is still on its way: of applications that do not await
// each write, or write from several threads. As on other servers they follow one another, in the order in which they came, and whoever
// waits, waits for his own.
//
//   a write, a flush or a file must wait for the socket     what comes then is a follower, and so is what comes while there are followers
//   nothing is on its way any more                          followers are written, one after the other, on the thread pool
//   the response ends                                       what has been copied is still written, behind nothing but a flush
//
// What a follower was given is copied: its caller may use the memory again as soon as the call has returned, and has had no
// reason to wait for it until the peer was slow. The memory of a large write that is on its way is the caller's: a handler that
// ends before that leaves a response that is not whole. Where many bytes wait already the connection is broken off: an application
// that waits for nothing would otherwise fill the memory for a peer that reads nothing, or next to nothing.
//
// Here is who waits, and whose turn it is; how followers are written is in AnswerWrites.cs.

using System.Diagnostics.CodeAnalysis;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal struct WriteOrder()
{
    /// <summary>Nothing follows where so many bytes wait already.</summary>
    public const int BehindMax = 16 * 1024 * 1024;

    /// <summary>A handler that waits for the socket. Used in place, never copied.</summary>
    public FlushWait Flush;

    private readonly SteadyLock _turns = new();     // the last to be taken, never around anything that waits
    private Queue<Follower>? _followers;    // under the lock; added to within the gate
    private volatile bool _hasFollowers;    // written under both: some wait, or are being written
    private long _behind;                   // under the lock: what they take
    private bool _goesOn;                   // under the lock: somebody writes them
    private int _unfinished;                // writes of several parts that have begun and not ended; those that the end of the response found so stay

    /// <summary>Something that was written is still on its way, and what is written now must follow it. Within the gate.</summary>
    public readonly bool IsBusy => _unfinished != 0 || _hasFollowers || Flush.IsPending;

    public readonly bool HasFollowers => _hasFollowers;

    /// <summary>Writes of several parts have begun and not ended.</summary>
    public readonly bool HasUnfinished => Volatile.Read(in _unfinished) != 0;

    /// <summary>A write of several parts has begun; <see cref="EndParts"/> must follow, unless the end of the response finds it under way.</summary>
    public void BeginParts() => Interlocked.Increment(ref _unfinished);

    public void EndParts() => Interlocked.Decrement(ref _unfinished);

    /// <summary>Within the gate. False where too much waits already.</summary>
    /// <param name="follower">Who comes behind all others.</param>
    /// <param name="isOwed">It is let in however much waits: one at most for each write that was let in.</param>
    public bool TryAdd(Follower follower, bool isOwed)
    {
        using (_turns.Hold())
        {
            bool isOneTooMany = _behind >= BehindMax && !isOwed;
            if (!isOneTooMany)
            {
                (_followers ??= new()).Enqueue(follower);
                _behind += follower.Size;
                _hasFollowers = true;
            }

            return !isOneTooMany;
        }
    }

    /// <summary>True: nothing is on its way any more, and whoever asked writes the followers.</summary>
    /// <param name="gate">That of the response.</param>
    /// <param name="ticket">That of the request they are of: the end of one takes them all away.</param>
    public bool TryGoOn(ref readonly ResponseGate gate, out long ticket)
    {
        using (_turns.Hold())
        {
            ticket = gate.Ticket;
            if (_goesOn || _followers is not { Count: > 0 } || HasUnfinished || Flush.IsPending)
            {
                return false;
            }

            _goesOn = true;
            return true;
        }
    }

    /// <summary>Within the gate. False when there is no more to write: nobody is left, or the first of them takes the turn himself.</summary>
    /// <param name="next">Who is to be written; where nobody is, who takes the turn.</param>
    public bool TryNext([NotNullWhen(true)] out Follower? next)
    {
        using (_turns.Hold())
        {
            bool isLast = !_followers!.TryDequeue(out next);
            _behind -= next?.Size ?? 0;
            if (!isLast && next!.Bytes is not null)
            {
                return true;
            }

            _goesOn = false;
            _hasFollowers = _followers.Count > 0;
            if (!_hasFollowers)
            {
                _followers = null;      // it may have been a long one, and the exchange is used again
            }

            if (next is not null)
            {
                BeginParts();
            }

            return false;
        }
    }

    /// <summary>The response ends: whoever waits has no turn any more.</summary>
    public Queue<Follower> TakeAll()
    {
        using (_turns.Hold())
        {
            Queue<Follower> followers = _followers!;
            _followers = null;
            _behind = 0;
            _hasFollowers = _goesOn = false;
            return followers;
        }
    }
}

/// <param name="bytes">What to write; none: a flush. Null: whoever waits takes the turn himself.</param>
/// <param name="isUnseen">Nobody waits for it: its failure is the response's.</param>
internal sealed class Follower(byte[]? bytes, bool isUnseen) : TaskCompletionSource
{
    private const int ObjectSize = 256;         // memory that each takes besides its bytes

    private Exception? _error;

    public byte[]? Bytes => bytes;

    public bool IsUnseen => isUnseen;

    public long Size => ObjectSize + (bytes?.Length ?? 0);

    /// <summary>It has been written, or has failed. Whoever waits for it is the application.</summary>
    public void End(ExchangeServices services, Exception? error)
    {
        if (!isUnseen)
        {
            _error = error;
            services.RunUserCode(static state => ((Follower)state!).Tell(), this);
        }
    }

    private void Tell()
    {
        if (_error is null)
        {
            SetResult();
        }
        else
        {
            SetException(_error);
        }
    }
}
