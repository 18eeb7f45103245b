/* How one connection moves between servers, as EventLoop.Move.cs, ClosingConnection.Move.cs, MovedConnection.cs and the daemon of
 * `millrace serve` have it: a server that is told to move gives its connection away when it is idle, whoever serves takes it out of the
 * channel, and any server but the last may end at any step. Two deployments follow one another as fast as they can, and a server that has ended is
 * replaced. Not here: what a loop does with its connection otherwise (Connections/Connection.pml), a channel that is full (the connection stays, and
 * is offered again), several connections, which have nothing in common but the order of their messages.
 *
 * A request is two halves, which come one by one, or together with others. Checked exhaustively: each half is read by one server, both halves of a
 * request by the same, and answered by it, in order; the connection ends only with a server that has it, so not by moving, and never while another
 * has it with a part of a request missing; when all have come to rest, every request has been answered or the connection has ended. Each
 * -DBROKEN_... leaves one step out and must be found out:
 *
 *   BROKEN_IDLE       a connection is given away although its request is being answered
 *   BROKEN_REST       ... although half of a request has been read
 *   BROKEN_LEAVE      whoever has given it away goes on reading
 *   BROKEN_NUMBER     it is taken while there is no number for its descriptor
 *   BROKEN_WAKE_ONE   of those that watch the channel one is told
 *   BROKEN_WAITING    whoever begins to watch the channel is not told of what waits there
 *   BROKEN_CHANNEL    the channel ends with the last server that watches it
 *   BROKEN_FIRST_LOOK whoever has taken it waits for the next bytes, and does not look for those that lie in its socket
 *   BROKEN_WATCH      it is watched without a word of what came between the first look and that
 */
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define SERVERS 3
#define NOBODY 255

/* the connection, as the kernel has it */
byte sent;                          /* halves of requests */
byte taken;                         /* of these, read by a server */
bool has[SERVERS];                  /* a server has a descriptor of it */
byte inChannel;                     /* messages that carry one */
bool isOver;                        /* nobody has one any more, or it was shut down: its peer sees the end */
/* the event queues */
bool isWatched[SERVERS];
bool event[SERVERS];
bool channelEvent[SERVERS];
/* the servers */
bool serves[SERVERS];               /* watches the channel */
bool moves[SERVERS];                /* has been told to give away what it has */
bool dead[SERVERS];
byte reader = NOBODY;               /* who has read a part of a request that has not been answered */
byte answered;
byte crashes;
bool endedWithIt;                   /* a server that had it */

#define REFERENCES (has[0] + has[1] + has[2] + inChannel)

inline ReleaseBy(ends) {
    if
    :: REFERENCES == 0 && !isOver -> assert(ends); isOver = true
    :: else
    fi
}

inline TellWatchers() {
#ifdef BROKEN_WAKE_ONE
    if
    :: serves[0] -> channelEvent[0] = true
    :: serves[1] -> channelEvent[1] = true
    :: serves[2] -> channelEvent[2] = true
    :: !serves[0] && !serves[1] && !serves[2]
    fi
#else
    channelEvent[0] = serves[0];
    channelEvent[1] = serves[1];
    channelEvent[2] = serves[2]
#endif
}

proctype Server(byte me) {
    bool hasHalf;                   /* of a request */
    bool isAnswering;
    bool isTaken;                   /* from the channel just now, and not watched yet */

{
LOOP:
    do
    :: atomic { moves[me] && serves[me] -> serves[me] = false; channelEvent[me] = false }   /* BeginMove */
    :: atomic { isAnswering -> assert(reader == me && taken >= 2 * answered + 2); answered++; isAnswering = false; reader = NOBODY }
        goto READ
    :: atomic { has[me] && event[me] -> event[me] = false }
        if
        :: isAnswering              /* what has come is read behind the answer */
        :: else -> goto READ
        fi
    :: has[me] && isWatched[me] && moves[me] -> goto OFFER                                  /* DrainConnections, again and again */
    :: atomic { serves[me] && channelEvent[me] -> channelEvent[me] = (inChannel > 1) }
        atomic {
            if
            :: serves[me] && inChannel > 0 ->
                inChannel--;
#ifdef BROKEN_NUMBER
                if
                :: has[me] = true; isTaken = true
                :: ReleaseBy(false)
                fi
#else
                has[me] = true;
                isTaken = true
#endif
            :: else
            fi
        }
        if
#ifndef BROKEN_FIRST_LOOK
        :: isTaken -> goto READ
#else
        :: atomic { isTaken -> isWatched[me] = true; isTaken = false }
#endif
        :: else
        fi
    od;

OFFER:
    if
#ifdef BROKEN_IDLE
    :: !hasHalf -> goto GIVE
#else
#ifdef BROKEN_REST
    :: !isAnswering -> goto GIVE
#else
    :: !isAnswering && !hasHalf -> goto GIVE
#endif
#endif
    :: else -> goto LOOP
    fi;

READ:
    if
    :: moves[me] && isWatched[me] && !isAnswering && !hasHalf -> goto GIVE                  /* the look before each read */
    :: else
    fi;
    atomic {
        if
        :: taken < sent ->
            assert(has[me] && (reader == NOBODY || reader == me));
            reader = me;
            taken++;
            hasHalf = !hasHalf;
            isAnswering = !hasHalf
        :: else -> goto WATCH
        fi
    }
    if
    :: isAnswering -> goto WATCH
    :: else -> goto READ
    fi;

WATCH:
    atomic {
        if
        :: isTaken ->
            isTaken = false;
            isWatched[me] = true;
#ifndef BROKEN_WATCH
            event[me] = (taken < sent)
#endif
        :: else
        fi
    }
    goto LOOP;

GIVE:
    atomic { inChannel++; TellWatchers() }
#ifdef BROKEN_LEAVE
    moves[me] = false;
    goto LOOP;
#endif
    atomic { isWatched[me] = false; event[me] = false }
    atomic {
        has[me] = false;
        ReleaseBy(endedWithIt)      /* its successor may have taken it, and ended */
    }
    goto LOOP
} unless { dead[me] }
}

/* The kernel gives back what an ended process had. */
active proctype Crash() {
    byte who;
    do
    :: atomic { crashes < CRASHES ->
        if
        :: who = 0
        :: who = 1
        fi;
        if
        :: (serves[who] || moves[who] || has[who]) && !dead[who] ->
            crashes++;
            dead[who] = true;
            serves[who] = false;
            channelEvent[who] = false;
            isWatched[who] = false;
            event[who] = false;
            if
            :: has[who] ->
                has[who] = false;
                endedWithIt = true;
                ReleaseBy(true)
            :: else
            fi;
#ifdef BROKEN_CHANNEL
            if
            :: !serves[0] && !serves[1] && !serves[2] -> inChannel = 0; ReleaseBy(false)
            :: else
            fi
#endif
        :: else
        fi
        }
    :: crashes >= CRASHES -> break
    :: break
    od
}

/* The daemon has a server that serves, and tells the one before it to move. A channel that is held by it outlives them all. */
inline Serve(it) {
    atomic {
        serves[it] = true;
#ifndef BROKEN_WAITING
        channelEvent[it] = (inChannel > 0);
#endif
        run Server(it)
    }
}

active proctype Daemon() {
    atomic {
        has[0] = true;
        isWatched[0] = true;
        event[0] = (sent > 0)
    }
    Serve(0);
    Serve(1);
    moves[0] = true;
    Serve(2);
    moves[1] = true
}

active proctype Client() {
    do
    :: atomic { sent < 2 * REQUESTS ->
        sent++;
        event[0] = event[0] || isWatched[0];
        event[1] = event[1] || isWatched[1];
        event[2] = event[2] || isWatched[2] }
    :: sent == 2 * REQUESTS -> break
    od
}

active proctype Rest() {
    timeout;
    assert(isOver || (answered == REQUESTS && reader == NOBODY))
}
