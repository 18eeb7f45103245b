/* Who owns a connection, as Ownership.cs, Connection.cs, Connection.Receive.cs, .Run.cs, ClosingConnection.cs and .Time.cs,
 * LentConnection.cs, SendingConnection.cs and .Finish.cs have it: how a loop lends it to an exchange and gets it back,
 * what the loop does for an exchange meanwhile, and which edges of the
 * socket it may let pass. Methods are named where they are no labels. Not here: how a loop passes from driver to driver
 * (Loops/EventLoop.pml: here Loop is whoever drives it), the gate, lingering, the drain, what is posted besides
 * (Continue, Deadline, LastLook), what bytes mean; the protocol is one that
 * reads while an exchange runs only as long as its body is open, like HTTP/1.1. Steps are sequentially consistent; what
 * only one side can see is one step with the shared access beside it.
 *
 * The peer sends heads and bodies, reads what it is sent, and finishes. Checked exhaustively: never two owners;
 * the descriptor is closed by the loop alone and never while an exchange owns the connection; an exchange touches
 * nothing after it gave the connection back; the loop touches no exchange that has ended; when all have come to rest,
 * every byte has been processed and the end seen, or the connection is closed, and no handler waits for ever; what an
 * application does after its response may never end, and holds up nothing of the response. Each
 * -DBROKEN_... leaves one step out and must be found out:
 *
 *   BROKEN_GIVE_BACK    the exchange gives back with a store, not a compare-exchange
 *   BROKEN_GIVEN_TWICE  the exchange sets the deadline after it gave the connection back
 *   BROKEN_PIN        the loop looks at a running exchange without pinning it
 *   BROKEN_LOOK_AGAIN   an event that could not pin does not look again whether the connection came back
 *   BROKEN_NOTE         bytes left in the socket while an exchange runs are not noted in the word
 *   BROKEN_NOTE_END     ... nor is the peer's end that came with the last bytes of a body
 *   BROKEN_NOTE_EDGE    an edge that comes with writability is forgotten when the sending makes way for a request
 *                       that is handed over
 *   BROKEN_LOOK_AFTER   what came along with a request is not looked at when its handler goes on
 *   BROKEN_WATCH        a loop that was handed over does not register the connection
 *   BROKEN_REWATCH      who unregisters for writability does not look whether it was wanted just then
 *   BROKEN_RESUME       an emptied body does not resume the reading
 *   BROKEN_CLOSE        a deadline closes whoever owns the connection
 *   BROKEN_DEADLINE     the look at a running exchange takes away the deadline that the exchange has just set
 *   BROKEN_DEADLINE_END ... or that of an idle connection, when the exchange ends between two looks at the word
 *   BROKEN_END          the end of a response that the socket did not take waits for what its application does after it
 */
#ifndef UNITS
#define UNITS 2                     /* of bytes from the peer: heads and parts of bodies, in any order */
#endif
#ifndef STALLS
#define STALLS 2                    /* times that the socket takes no more */
#endif
#ifndef DEADLINES
#define DEADLINES 0
#endif

/* OwnershipWord, PostReasons, WatchWord, readiness */
#define Lent 1
#define Returning 4
#define Pinned 2
#define WantsWritable 8
#define NotedInput 16
#define PostedTakeBack 1
#define ResumeReading 2
#define Watched 1
#define Writing 2
#define Read 1
#define Write 2
#define PeerFinished 4

/* Connection */
byte word;
byte posted;                        /* reasons */
byte queue;                         /* times that the loop's posted work has it */
byte watch;
byte held;
bit readable;
bit away;
bit pending;
bit rest;
bit keepsOpen;
bit restKeepsOpen;
bit isClosed;
/* the exchange's body */
bit isOpen;
bit isPaused;
bit flushed;                        /* the flush that waits in isPaused has completed */
byte pipe;
/* the loop's word */
bit isRunning;
/* the kernel */
byte socket;                        /* units that have arrived */
bit finished;
bit room = 1;
byte interest;
byte ready;
byte stalls = STALLS;
/* what the code has no field for */
bit isBody[UNITS];                 /* what the peer sends: heads without a body, and with one of one or more units */
byte position;                      /* units processed */
byte deadlines = DEADLINES;
bit idles;                          /* the deadline is that of an idle connection */
bit since;
bit owns;                           /* the exchange owns the connection */
bit lives;                          /* the exchange has not been reset */
bit waits;                          /* the handler waits for its flush */
bit resumed;                        /* ... which has completed */
bit endWaits;                       /* the end of a response is left, and nobody waits for it */
bit hangs;                          /* OnCompleted never ends */
bit sawEnd;
byte leaves;                        /* how the handler's synchronous part ended in its turn */
bit attached;
chan start = [1] of { bit };
#define IN_TURN 1
#define GOES_ON 2

#define OPEN_AT(at) (at < UNITS && isBody[at])

/* ---- kernel ---- */

inline AddToQueue() {
    atomic {
        interest = Read | PeerFinished | (watch & Writing);
        ready = ready | (socket > 0 || finished -> Read : 0) | (finished -> PeerFinished : 0) | (room && (interest & Write) -> Write : 0)
    }
}

inline Rewatch(writing) {
    atomic {
        if
        :: writing -> interest = interest | Write; if :: room -> ready = ready | Write :: else fi
        :: else -> interest = interest & (255 - Write); ready = ready & (255 - Write)
        fi
    }
}

/* ---- what both sides do ---- */

inline WatchWriting() {
    atomic { was = watch; watch = watch | Writing };
    if
    :: atomic { was & Watched -> was = 0 }; Rewatch(true)
    :: atomic { else -> was = 0 }
    fi
}

inline PostSelf(reason) {
    atomic { was = posted; posted = posted | reason; if :: reason == PostedTakeBack -> owns = 0 :: else fi };
    if
    :: atomic { was == 0 -> queue++ }
    :: atomic { else -> was = 0 }
    fi
}

/* SendOutput: all or nothing. */
inline Send(again) {
    atomic {
        assert(!isClosed);
        if
        :: room && stalls > 0 -> room = 0; stalls--; again = 1
        :: room
        :: !room -> again = 1
        fi
    }
}

/* ---- the exchange: the handler on whatever thread it is, and FinishAway ---- */

proctype Exchange() {
    byte was;
    bit inTurn, reads, blocked, drained;

RUN:
end_no_request:
    start?inTurn;
    if :: reads = 1 :: reads = 0 fi;                /* the body to its end, or not even that */
    if                              /* it may end in its turn, go on elsewhere, or block */
    :: inTurn -> inTurn = 0; if :: goto LEAVE_ENDED :: goto LEAVE_GOING_ON :: skip fi; inTurn = 1
    :: else
    fi;

HANDLER:
    do
    :: atomic { pipe > 0 -> assert(lives); pipe = 0; drained = isPaused && !flushed; flushed = flushed | drained };
        if
        :: atomic { drained -> drained = 0 };
#ifndef BROKEN_RESUME
            PostSelf(ResumeReading)
#else
            skip
#endif
        :: else
        fi
    :: (stalls > 0 || !room) ->     /* writes */
        assert(owns);
        Send(blocked);
        if
        :: atomic { blocked -> blocked = 0; waits = 1 };
            word = word | WantsWritable;
            WatchWriting();
            atomic { resumed -> resumed = 0; waits = 0 }
        :: else
        fi
    :: atomic { !isOpen && pipe == 0 -> break }
    :: atomic { !reads -> break }
    od;
    if
    :: inTurn -> inTurn = 0; goto LEAVE_ENDED
    :: else -> attached; goto END
    fi;

LEAVE_ENDED:
    if
    :: atomic { isRunning -> isRunning = 0; leaves = IN_TURN; goto RUN }
    :: atomic { !isRunning -> goto FINISH }
    fi;
LEAVE_GOING_ON:
    if
    :: atomic { isRunning -> isRunning = 0; leaves = GOES_ON; goto HANDLER }
    :: atomic { !isRunning -> attached = 1; goto HANDLER }
    fi;

END:                                /* SendEnd, OnCompleted */
    if
    :: goto FINISH
    :: (stalls > 0 || !room) ->
        assert(owns);
        Send(blocked);
        if
        :: atomic { blocked -> blocked = 0; endWaits = 1 };
#ifndef BROKEN_END
            word = word | WantsWritable;
            WatchWriting();
#endif
            if
            :: goto FINISH
            :: hangs = 1;
end_completing:
                false
            fi
        :: else
        fi
    fi;

FINISH:                             /* FinishAway */
    atomic { assert(owns && lives); endWaits = 0; Send(blocked) };
    if :: keepsOpen = 1 :: keepsOpen = 0 fi;
    if
    :: atomic { !blocked && keepsOpen && !readable && held == 0 && !isOpen }
#if DEADLINES
        idles = 1;                  /* DeadlineMs */
#endif
#ifndef BROKEN_GIVEN_TWICE
        assert(owns && !isClosed);  /* DeadlineMs */
#endif
        if                          /* TryGiveBack */
#ifdef BROKEN_GIVE_BACK
        :: atomic { true -> word = 0; owns = 0; lives = 0; attached = 0 };
#else
#if DEADLINES
        :: atomic { word == Lent -> assert(idles); word = 0; owns = 0; lives = 0; attached = 0 };
#else
        :: atomic { word == Lent -> word = 0; owns = 0; lives = 0; attached = 0 };
#endif
#endif
#ifdef BROKEN_GIVEN_TWICE
            assert(owns && !isClosed);
#endif
            goto RUN                /* Reset: from the exchange on nobody may look at it */
#ifndef BROKEN_GIVE_BACK
        :: word != Lent
#endif
        fi
    :: atomic { else }
    fi;
    atomic { assert(owns && !isClosed); rest = blocked; restKeepsOpen = keepsOpen; blocked = 0; attached = 0 };
    word = word | Returning;
    PostSelf(PostedTakeBack);
    goto RUN
}

/* ---- the loop ---- */

#define IsLoops ((word & Lent) == 0)

inline EnsureWatched() {
    if
    :: watch & Watched
    :: else ->
        atomic { was = watch; watch = watch | Watched; interest = 0 };
        AddToQueue();
        if
        :: !(was & Writing) && (watch & Writing) -> Rewatch(true)
        :: else
        fi;
        was = 0
    fi
}

inline UnwatchWriting() {
    atomic { was = watch; watch = watch & (255 - Writing) };
    if
    :: was & Writing -> Rewatch(false)
    :: else
    fi;
    was = 0
}

/* One compare-exchange of a loop that ends in success or in a word that forbids it. */
inline TryPin(done) {
    atomic { done = !IsLoops && !(word & Returning);
#ifndef BROKEN_PIN
        if :: done -> word = word | Pinned :: else fi
#endif
    }
}

inline NoteInput() {
#ifndef BROKEN_NOTE
    word = word | NotedInput
#else
    skip
#endif
}

inline Close() {
    atomic { assert(!owns && !lives && !isClosed); isClosed = 1; ready = 0; interest = 0; held = 0; pending = 0 }
}

/* ProcessWhileLent and Body.Flush: count units, the reader sees all or none. */
inline Feed() {
    atomic {
        assert(lives);
        do
        :: count > 0 && isOpen ->
            count--;
            position++;
            pipe++;
            isOpen = OPEN_AT(position)
        :: else -> break
        od;
        held = held + count;
        count = 0;
        if :: isOpen && pipe > 0 && !isPaused -> isPaused = 1; flushed = 0 :: else fi
    }
}

/* Into a driver's input, of which nobody knows how much it holds. */
inline TakeFromSocket() {
    atomic {
        count = socket;
        if
        :: isWhole = 0
        :: count > 0 -> isWhole = 1
        :: count > 1 -> count--; isWhole = 1        /* fills it, and more is left */
        fi;
        socket = socket - count
    }
}

proctype Loop() {
    byte was, count, event, reasons;
    bit isWhole, mine, finNoted, closing, continues, wanted, resumes, adopting = 1;

    goto RECEIVE;                   /* OnAccepted */

TURN:
    count = 0; wanted = 0; resumes = 0; event = 0;
    if
    :: adopting -> adopting = 0; if :: !isClosed -> EnsureWatched() :: else fi
    :: else
    fi;
end_turn:
    if
    :: atomic { !isClosed && ready != 0 -> event = ready; ready = 0; if :: skip :: room && (interest & Write) -> event = event | Write fi }; goto EVENT
    :: atomic { queue > 0 -> queue--; reasons = posted; posted = 0 }; goto POSTED
    :: atomic { deadlines > 0 && !isClosed -> deadlines-- }; goto DEADLINE
    fi;

EVENT:                              /* OnEvent */
    if :: event & PeerFinished -> finNoted = 1 :: else fi;
    if
    :: !IsLoops ->
        TryPin(mine);
        if
        :: mine -> goto EVENT_WHILE_LENT
        :: else
        fi;
#ifdef BROKEN_LOOK_AGAIN
        readable = 1; goto TURN
#else
        if
        :: !IsLoops -> readable = 1; goto TURN
        :: else
        fi
#endif
    :: else
    fi;
    atomic { assert(!owns); word = 0; away = 0; lives = 0 };     /* Settle */
    if
    :: !pending && (event & Write) -> UnwatchWriting()
    :: else
    fi;
    if
    :: pending && (event & Write) ->
#ifndef BROKEN_NOTE_EDGE
        if :: event & Read -> readable = 1 :: else fi;
#endif
        goto SEND_PENDING
    :: else
    fi;
EVENT_SENT:
    event = event & (255 - Write);
    if
    :: isClosed || event == 0 -> goto TURN
    :: !isClosed && event != 0 && away -> goto EVENT
    :: else
    fi;
    event = 0;
    if
    :: pending || held > 0 -> readable = 1; goto TURN
    :: else -> goto RECEIVE
    fi;

RECEIVE:
    TakeFromSocket();
    if
    :: count > 0 -> readable = isWhole || finNoted; goto PROCESS
    :: count == 0 && finished -> sawEnd = 1; Close(); goto TURN
    :: else -> goto EVENT_SENT
    fi;

PROCESS:                            /* the loop owns the connection and count units */
    assert(!owns && !isClosed);
    if
    :: count == 0 -> goto PROCESSED
    :: count > 0 && isBody[position] -> position++; count--; goto PROCESS     /* of a request that did not want it */
    :: else
    fi;
    atomic {                        /* Dispatch, Run: Word = Lent, Enter */
        position++;
        held = count - 1;           /* HoldInPlace */
        count = 0;
        isOpen = OPEN_AT(position);
        pipe = 0;
        isPaused = 0;
        attached = 0;
        owns = 1;
        lives = 1;
        idles = 0;
        word = Lent
    }
    if
    :: atomic { isRunning = 1; start!1 }
    :: EnsureWatched();             /* SendToWorker */
        away = 1;
        atomic { attached = 1; start!0 };
        goto LOOK_AFTER
    fi;
    if
    :: atomic { leaves == IN_TURN -> leaves = 0; owns = 0; lives = 0; word = 0 };    /* FinishInline */
        atomic { count = held; held = 0; isOpen = 0 };
        if
        :: goto PROCESS
        :: closing = 1; count = 0; goto PROCESSED
        fi
    :: atomic { leaves == GOES_ON -> leaves = 0 };
        away = 1;
        EnsureWatched();
        attached = 1;
        goto LOOK_AFTER
    :: atomic { isRunning -> isRunning = 0 };       /* TakeOver, OnHandedOver */
        away = 1; adopting = 0; continues = 0; event = 0;
#ifndef BROKEN_WATCH
        EnsureWatched();
#endif
        TryPin(mine);
        if
        :: mine -> goto FEED_AND_UNPIN
        :: else -> goto TURN
        fi
    fi;

PROCESSED:                          /* SendDriverOutput */
    Send(pending);
    if
    :: pending -> EnsureWatched(); WatchWriting()
    :: else
    fi;
    if
    :: closing && !pending -> Close()
    :: else
    fi;
    if
    :: isClosed -> goto TURN
    :: !isClosed && continues -> continues = 0;
        if
        :: !pending && (readable || sawEnd) -> readable = 0; goto RECEIVE
        :: else -> goto EVENT_SENT
        fi
    :: else
    fi;
    if
    :: pending -> readable = 1; goto EVENT_SENT
    :: !pending && !isWhole && !finNoted -> goto EVENT_SENT
    :: else -> goto RECEIVE
    fi;

SEND_PENDING:
    pending = 0;
    Send(pending);
    if
    :: pending -> WatchWriting(); goto EVENT_SENT
    :: !pending && closing -> Close(); goto TURN
    :: else
    fi;
CONTINUE:
    assert(!owns && !isClosed);
    if
    :: held > 0 -> atomic { count = held; held = 0; continues = 1; goto PROCESS }
    :: held == 0 && (readable || sawEnd) -> readable = 0; goto RECEIVE
    :: else -> goto EVENT_SENT
    fi;

LOOK_AFTER:
    continues = 0;
#ifdef BROKEN_LOOK_AFTER
    goto EVENT_SENT;
#else
    if
    :: held == 0 && !readable -> goto EVENT_SENT
    :: else
    fi;
    TryPin(mine);
    if
    :: mine -> goto FEED_AND_UNPIN
    :: else -> goto EVENT_SENT
    fi;
#endif

FEED_AND_UNPIN:
    assert(lives);
    if
    :: isOpen && held > 0 -> atomic { count = held; held = 0 }; Feed()
    :: else
    fi;
    wanted = readable;

READ_AND_UNPIN:
    assert(lives);
    if
    :: !isOpen || isPaused || held > 0 ->
        readable = readable | wanted | (held > 0);
        if :: readable -> NoteInput() :: else fi
    :: else ->
        if
        :: wanted -> readable = 0; goto READ_AND_FEED
        :: else
        fi
    fi;
UNPIN:
    atomic { assert(lives); word = word & (255 - Pinned) };
    if
    :: resumes -> resumed = 1; resumes = 0      /* RunResumed */
    :: else
    fi;
    goto EVENT_SENT;

READ_AND_FEED:
    assert(lives && !isClosed);
    TakeFromSocket();
    if
    :: count == 0 && finished ->    /* OnPeerEndWhileLent */
        sawEnd = 1;
        NoteInput();
        isOpen = 0;
        goto UNPIN
    :: count == 0 && !finished -> goto UNPIN
    :: else
    fi;
    Feed();
    if
    :: isPaused || held > 0 || !isOpen ->
#ifdef BROKEN_NOTE_END
        readable = readable | isWhole | (held > 0);
#else
        readable = readable | isWhole | finNoted | (held > 0);
#endif
        if :: readable -> NoteInput() :: else fi;
        goto UNPIN
    :: else
    fi;
    if
    :: !isWhole && !finNoted -> goto UNPIN
    :: else -> goto READ_AND_FEED
    fi;

EVENT_WHILE_LENT:
    assert(lives && !isClosed);
    if
    :: event & Write ->
        atomic { mine = (word & WantsWritable) != 0; word = word & (255 - WantsWritable) };
        if
        :: mine ->                  /* ContinueSending */
            mine = 0;
            Send(mine);
            if
            :: mine -> word = word | WantsWritable; WatchWriting()
            :: else -> atomic { resumes = waits; endWaits = 0 }
            fi
        :: else ->
            UnwatchWriting();
#ifndef BROKEN_REWATCH
            if
            :: word & WantsWritable -> WatchWriting()     /* wanted just now */
            :: else
            fi
#endif
        fi
    :: else
    fi;
    if
    :: event == Write -> event = 0; goto UNPIN
    :: else -> event = 0; wanted = 1; goto READ_AND_UNPIN
    fi;

POSTED:                             /* OnPosted */
    if
    :: isClosed -> goto TURN
    :: !isClosed && (reasons & PostedTakeBack) -> goto TAKE_BACK
    :: else
    fi;
    TryPin(mine);
    if
    :: mine ->
        assert(lives);
        if :: isPaused && flushed -> isPaused = 0 :: else fi;     /* OnRoom */
        goto FEED_AND_UNPIN
    :: else -> goto TURN
    fi;

TAKE_BACK:
    assert(!owns);
    lives = 0;
    away = 0;
    word = 0;
    pending = rest;
    rest = 0;
    isOpen = 0;
    if :: !restKeepsOpen -> closing = 1 :: else fi;
    if
    :: pending -> EnsureWatched(); goto SEND_PENDING
    :: !pending && closing -> Close(); goto TURN
    :: else -> goto CONTINUE          /* AfterTurn */
    fi;

DEADLINE:                           /* OnDeadline */
#ifndef BROKEN_CLOSE
    if
    :: !IsLoops ->
        TryPin(mine);
        if
        :: mine ->
            atomic { assert(lives); since = idles; idles = 0 };
#ifndef BROKEN_DEADLINE
            idles = idles | since;
#endif
            since = 0;
            goto UNPIN              /* CheckExchange */
        :: else ->                  /* it has ended since: DeadlineMs, unless that has changed */
#ifdef BROKEN_DEADLINE_END
            idles = 0;
#endif
#if DEADLINES
            assert(word != 0 || idles);
#endif
            goto TURN
        fi
    :: else
    fi;
    atomic { assert(!owns); word = 0; away = 0; lives = 0 };
#endif
    Close();
    goto TURN
}

proctype Peer() {
    byte sent;
    do
    :: sent < UNITS ->
        sent++;
        atomic { socket++; ready = ready | (interest & Read) }
    :: else -> break
    od;
    if
    :: atomic { finished = 1; ready = ready | (interest & (Read | PeerFinished)) }
    :: skip                         /* it waits for answers */
    fi
}

/* The peer reads. */
proctype Reader() {
end_reads:
    do
    :: atomic { !room -> room = 1; ready = ready | (interest & Write) }
    od
}

init {
    byte i;
    atomic {
        for (i : 1 .. UNITS - 1) {
            if :: isBody[i] = 1 :: skip fi
        }
        run Exchange(); run Loop(); run Peer(); run Reader()
    }
    timeout;
    d_step {
        assert(!hangs || !endWaits);
        assert(hangs || !owns);
        assert(hangs || isClosed || (position == UNITS && held == 0 && sawEnd == finished))
    }
}
