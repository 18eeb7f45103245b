/* Who drives an event loop, as EventLoop.cs, EventLoop.Turn.cs, LoopMonitor.cs and DriverPool.cs have it: how a loop is
 * handed over while a handler blocks, how posted work wakes a loop that falls asleep, how a loop wakes the monitor. Not
 * here: what a turn does with its connections (Connections/Connection.pml), several loops, how a loop ends, how the monitor counts quiet
 * looks (it may fall asleep after any look that found nothing), memory ordering: the steps are sequentially consistent,
 * and where the code relies on a store being seen before a later load it has an interlocked operation or a barrier. What
 * only the loop's driver can see is one step with the shared access beside it.
 *
 * Checked exhaustively: one driver at a time; when all have come to rest nothing is posted and no event left, although
 * handlers block for ever. A variable ends as the field it stands for is named. Each -DBROKEN_... leaves one step out
 * and must be found out:
 *
 *   BROKEN_LEAVE          a handler's end does not look whether the loop was taken over
 *   BROKEN_TAKE_OVER      the monitor takes a loop without comparing its word
 *   BROKEN_MARK           the word has no sequence: two calls of user code look the same
 *   BROKEN_FALL_ASLEEP    posted work is not looked for after _sleeping was set
 *   BROKEN_MONITOR_SLEEP  the monitor does not look for active loops after its _sleeping was set
 *   BROKEN_POSTED         posted work that a deadline's turn finds does not wake the monitor
 *   BROKEN_BATCH          a batch ends with the driver that took it
 */
#ifndef DRIVERS
#define DRIVERS 2                   /* all but one may be held by handlers that never return */
#endif
#ifndef EVENTS
#define EVENTS 2
#endif
#ifndef POSTS
#define POSTS 1
#endif
#ifndef DEADLINES
#define DEADLINES 1
#endif
#define NOBODY 255

/* EventLoop */
byte word;                          /* sequence * 2, + 1 while user code runs */
byte sequence;
byte batch;                         /* events taken from the kernel and not looked at yet */
bit sleeping;
bit isActive;
byte posted;
/* the kernel */
byte events;
bit wakeUp;
/* LoopMonitor */
bit monitorSleeping;
byte monitorWake;
/* DriverPool */
bool idle[DRIVERS];
chan give[DRIVERS] = [1] of { bit };
/* what the code has no field for */
byte driving = NOBODY;
byte deadlines = DEADLINES;
byte held;                          /* drivers in handlers that never return */
byte handled;

#define SAW_SLEEPING(it, wake) \
    if :: it == 1 -> \
        if :: atomic { it == 1 -> it = 0 }; wake :: atomic { else } fi \
    :: else fi

/* SetActive */
inline SetActive() {
    isActive = 1;
    SAW_SLEEPING(monitorSleeping, monitorWake++)
}

proctype Driver(byte me) {
    byte mark;
    bit ready;

STANDBY:
    idle[me] = true;
    atomic {
        give[me]?_;
        assert(driving == NOBODY);  /* the monitor gives a loop only when it has taken it over */
        driving = me
    }

TURN:
    do
    :: atomic { batch > 0 -> assert(driving == me); batch--; goto ENTER }
    :: atomic { batch == 0 && posted > 0 -> assert(driving == me); posted-- }
#ifndef BROKEN_POSTED
        if                          /* EnsureActive: a deadline may have ended the wait, and the work come just then */
        :: isActive == 0 -> SetActive()
        :: else
        fi;
#endif
        goto ENTER
    :: atomic { batch == 0 && posted == 0 -> assert(driving == me) }
        break
    od;

    sleeping = 1;                   /* TryFallAsleep */
#ifndef BROKEN_FALL_ASLEEP
    if
    :: posted > 0 -> sleeping = 0; goto POLL
    :: else
    fi;
#endif
    isActive = 0;
    if
    :: (events > 0 || wakeUp)
    :: atomic { deadlines > 0 -> deadlines-- }
    fi;
POLL:
    atomic { batch = events; events = 0; ready = (batch > 0 || wakeUp); wakeUp = 0 }
    sleeping = 0;                   /* WakeUp */
    if
    :: ready -> ready = 0; SetActive()
    :: else
    fi;
    goto TURN;

ENTER:
    atomic {
        assert(driving == me);
#ifndef BROKEN_MARK
        sequence++;
#endif
        mark = sequence * 2 + 1;
        word = mark
    }
RUNNING:
    if
    :: skip
    :: atomic { held < DRIVERS - 1 -> held++ };
HELD:   false
    fi;
#ifdef BROKEN_LEAVE
    atomic { word = mark - 1; mark = 0; handled++; goto TURN }
#else
    if                              /* Leave */
    :: atomic { word == mark -> word = mark - 1; mark = 0; handled++; goto TURN }
    :: atomic { word != mark -> mark = 0; handled++; goto STANDBY }     /* touches nothing of the loop */
    fi
#endif
}

proctype Monitor() {
    byte lastWord, seen, standby;

LOOK:
    atomic { seen = word; if :: seen % 2 == 1 && seen == lastWord :: else -> lastWord = seen; goto LOOKED fi }
    atomic {                        /* HandOver: TryReserve, then TakeOver, then Give */
        for (standby : 0 .. DRIVERS - 1) {
            if :: idle[standby] -> idle[standby] = false; break :: else fi
        }
    }
    if
    :: standby < DRIVERS ->
        if
#ifdef BROKEN_TAKE_OVER
        :: atomic { true -> word = seen - 1; driving = NOBODY };
#else
        :: atomic { word == seen -> word = seen - 1; driving = NOBODY };
#endif
#ifdef BROKEN_BATCH
            batch = 0;
#endif
            give[standby]!1
#ifndef BROKEN_TAKE_OVER
        :: atomic { word != seen -> idle[standby] = true }
#endif
        fi
    :: else
    fi;
    standby = 0;
LOOKED:
    if
    :: atomic { seen % 2 == 1 || isActive -> seen = 0; goto LOOK }
    :: atomic { else -> seen = 0 }
    fi;
    monitorSleeping = 1;
#ifndef BROKEN_MONITOR_SLEEP
    if
    :: atomic { isActive -> monitorSleeping = 0; goto LOOK }
    :: else
    fi;
#endif
end_asleep:
    atomic { monitorWake > 0 -> monitorWake--; goto LOOK }
}

/* Bytes of peers arrive. */
proctype Peer() {
    byte i;
    for (i : 1 .. EVENTS) {
        events++
    }
}

/* Post, on any thread. */
proctype Poster() {
    byte i;
    for (i : 1 .. POSTS) {
        posted++;
        SAW_SLEEPING(sleeping, wakeUp = 1)
    }
}

init {
    byte i;
    atomic {
        for (i : 0 .. DRIVERS - 1) {
            run Driver(i)
        }
        run Monitor(); run Peer(); run Poster();
        (idle[0]);
        idle[0] = false;
        give[0]!1
    }
    /* Nobody can take a step any more. */
    timeout;
    d_step {
        assert(events == 0 && batch == 0 && posted == 0);
        assert(driving != NOBODY);
        assert(handled + held == EVENTS + POSTS)
    }
}
