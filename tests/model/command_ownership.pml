/* Who owns a command of a deployment: from the commit that issues it to the commit of its outcome.
 *
 * One execution issues COMMANDS commands, one after the other. A command reaches a worker by two paths:
 *   queue    a commit writes the row (owner: the invocation), the invocation sends the message and hands the row to the queue;
 *   request  a worker sends its outcome by request, and the answer carries the next command, whose row the commit leased to that worker.
 * Time is not modelled: the sweeper may find any lease over at any moment, also while its owner lives. That is more than can happen.
 *
 * Bounds: CRASHES processes die, REPEATS messages are delivered a second time, one client cancels.
 * Promises (docs/guarantees.md) are assertions. A macro that begins with MISTAKE_ makes one mistake, which a check has to find.
 */

#ifndef COMMANDS
#define COMMANDS 2
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ENGINES
#define ENGINES 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef REPEATS
#define REPEATS 1
#endif

#define NONE 255

/* Owners of a row. */
#define GONE 0        /* no row: not issued yet, or its outcome is committed */
#define INVOCATION 1  /* the invocation that committed it; the sweeper takes it when that time is over */
#define QUEUE 2       /* the queue has the message and delivers it until it is deleted */
#define WORKER 3      /* leased to the worker that asked; the sweeper takes it when the lease is over */

/* The database: each atomic block below is one transaction. */
byte open = 0;                /* the command whose outcome counts: the fence; COMMANDS: none is left */
bool ended = false;           /* the execution has its terminal event */
bool cancelled = false;
byte row[COMMANDS];           /* the owner of each command's row */
byte applied[COMMANDS];       /* outcomes that were committed */

/* The queues: messages that are visible, by command. A message in flight is in the hands of a process. */
byte commands[COMMANDS];
byte events[COMMANDS];
bool sent[COMMANDS];          /* the command queue had this command at least once */
bool reported[COMMANDS];      /* the event queue had this outcome at least once */
bool cancel_sent = false;
byte messages = 0;            /* visible messages of the command queue, so that a worker can wait for any */
byte outcomes = 0;            /* visible messages of the event queue */

byte crashes = CRASHES;
byte repeats = REPEATS;

inline send_command(c) { atomic { commands[c]++; messages++; sent[c] = true } }
inline send_outcome(c) { atomic { events[c]++; outcomes++; reported[c] = true } }

/* Guarantee 1 and 4: an outcome counts once, and only for the command that is open. `issued` is what the commit issues, or NONE.
 * `lessee`: the owner that the commit writes into the row of what it issues. */
inline commit_outcome(c, lessee, issued) {
  atomic {
    issued = NONE;
    if
#ifdef MISTAKE_NO_FENCE
    :: !ended ->
#else
    :: !ended && open == c ->
#endif
       applied[c]++;
       assert(applied[c] == 1);
       assert(!cancelled);
       row[c] = GONE;
       open = c + 1;
       if
       :: open == COMMANDS -> ended = true
       :: else -> issued = open; row[issued] = lessee
       fi
    :: else -> skip   /* superseded: recorded beside the history */
    fi
  }
}

/* Publish what a commit issued: send first, then hand the row over to the queue (guarantee 19). */
inline hand_over(c) {
  atomic {
    assert(sent[c]);
    if
    :: row[c] == INVOCATION -> row[c] = QUEUE
    :: else -> skip   /* its outcome came first, or the sweeper did the same */
    fi
  }
}

/* An invocation of the engine function: one message of the event queue. */
proctype Engine() {
  byte c = NONE, issued = NONE;
end:
  do
  :: atomic {
       outcomes > 0 ->
       c = 0;
       do
       :: c < COMMANDS && events[c] > 0 -> break
       :: c < COMMANDS && events[c] == 0 -> c++
       od;
       events[c]--; outcomes--
     }
     if
     :: skip
     :: atomic { crashes > 0 -> crashes--; events[c]++; outcomes++; issued = NONE; c = NONE }; goto end   /* delivered again */
     fi;
     commit_outcome(c, INVOCATION, issued);
     if
     :: skip
     :: atomic { crashes > 0 -> crashes--; events[c]++; outcomes++; issued = NONE; c = NONE }; goto end
     fi;
     if
     :: issued != NONE ->
#ifdef MISTAKE_HAND_OVER_FIRST
        atomic { row[issued] = QUEUE };
        if
        :: skip
        :: atomic { crashes > 0 -> crashes--; events[c]++; outcomes++; issued = NONE; c = NONE }; goto end
        fi;
        send_command(issued)
#else
        send_command(issued);
        if
        :: skip
        :: atomic { crashes > 0 -> crashes--; events[c]++; outcomes++; issued = NONE; c = NONE }; goto end
        fi;
        hand_over(issued)
#endif
     :: else -> skip
     fi;
     issued = NONE; c = NONE   /* an idle process remembers nothing */
  od
}

/* A worker function. `held`: it has a message of the command queue in flight; else it has a command by request. */
proctype Worker() {
  byte c = NONE, issued = NONE;
  bool held;
end:
  do
  :: atomic {
       messages > 0 ->
       c = 0;
       do
       :: c < COMMANDS && commands[c] > 0 -> break
       :: c < COMMANDS && commands[c] == 0 -> c++
       od;
       commands[c]--; messages--; held = true
     }
perform:
     /* The task runs here. It may run again after a crash: guarantee 2. */
     if
     :: skip
     :: atomic { crashes > 0 -> crashes--; if :: held -> commands[c]++; messages++ :: else -> skip fi; issued = NONE; c = NONE; held = false }; goto end
     fi;
     if
     :: /* The path of the queue. */
#ifdef MISTAKE_DELETE_FIRST
        held = false;
        if
        :: skip
        :: atomic { crashes > 0 -> crashes--; issued = NONE; c = NONE }; goto end
        fi;
#endif
        send_outcome(c);
        if
        :: skip
        :: atomic { crashes > 0 -> crashes--; if :: held -> commands[c]++; messages++ :: else -> skip fi; issued = NONE; c = NONE; held = false }; goto end
        fi;
        /* The message is deleted: guarantee 22. */
        assert(reported[c]);
        held = false
     :: /* The request is refused before anything is decided (throttled, unreachable): the outcome goes by the queue. */
#ifdef MISTAKE_NO_FALLBACK
        held = false
#else
        send_outcome(c);
        assert(reported[c]);
        held = false
#endif
     :: /* The path of the request: the engine function decides, the answer may be lost. */
#ifdef MISTAKE_NO_LEASE
        commit_outcome(c, QUEUE, issued);
#else
        commit_outcome(c, WORKER, issued);
#endif
        if
        :: /* The answer arrives: the outcome is durable, so the message is deleted. */
           if
           :: skip
           :: atomic { crashes > 0 -> crashes--; if :: held -> commands[c]++; messages++ :: else -> skip fi; issued = NONE; c = NONE; held = false }; goto end
           fi;
           held = false;
           if
           :: issued != NONE -> c = issued; issued = NONE; goto perform
           :: else -> skip
           fi
        :: /* The answer is lost, the engine function died, or it refused: the same outcome goes by the queue. */
           atomic { crashes > 0 -> crashes-- };
           send_outcome(c);
           assert(reported[c]);
           held = false
        fi
     fi;
     issued = NONE; c = NONE
  od
}

/* Maintenance: rows whose owner's time is over are sent again. */
proctype Sweeper() {
  byte c = NONE;
end:
  do
  :: atomic {
       (row[0] == INVOCATION || row[0] == WORKER) -> c = 0
     }
     send_command(c);
     atomic { if :: row[c] == INVOCATION || row[c] == WORKER -> row[c] = QUEUE :: else -> skip fi; c = NONE }
#if COMMANDS > 1
  :: atomic {
       (row[1] == INVOCATION || row[1] == WORKER) -> c = 1
     }
     send_command(c);
     atomic { if :: row[c] == INVOCATION || row[c] == WORKER -> row[c] = QUEUE :: else -> skip fi; c = NONE }
#endif
#if COMMANDS > 2
  :: atomic {
       (row[2] == INVOCATION || row[2] == WORKER) -> c = 2
     }
     send_command(c);
     atomic { if :: row[c] == INVOCATION || row[c] == WORKER -> row[c] = QUEUE :: else -> skip fi; c = NONE }
#endif
  od
}

/* Queues deliver at least once: a message that was sent comes a second time. */
proctype Repeats() {
end:
  do
  :: atomic { repeats > 0 && sent[0] -> repeats--; commands[0]++; messages++ }
  :: atomic { repeats > 0 && reported[0] -> repeats--; events[0]++; outcomes++ }
#if COMMANDS > 1
  :: atomic { repeats > 0 && sent[1] -> repeats--; commands[1]++; messages++ }
  :: atomic { repeats > 0 && reported[1] -> repeats--; events[1]++; outcomes++ }
#endif
  od
}

/* A client cancels, once or never. The commit ends the execution and removes its rows. */
proctype Client() {
  if
  :: skip
  :: atomic {
       if
       :: !ended -> ended = true; cancelled = true; open = COMMANDS; row[0] = GONE;
#if COMMANDS > 1
          row[1] = GONE;
#endif
#if COMMANDS > 2
          row[2] = GONE;
#endif
       :: else -> skip
       fi
     }
  fi
}

/* Guarantee 3: when nothing can move any more, the execution has ended and no row is left. */
proctype Watchdog() {
  timeout ->
  assert(ended);
  assert(row[0] == GONE);
#if COMMANDS > 1
  assert(row[1] == GONE);
#endif
#if COMMANDS > 2
  assert(row[2] == GONE)
#endif
}

init {
  byte n;
  atomic {
    /* A client's start was accepted: the first command's row is committed, and its invocation may have died. */
    row[0] = INVOCATION;
    n = 0; do :: n < ENGINES -> run Engine(); n++ :: else -> break od;
    n = 0; do :: n < WORKERS -> run Worker(); n++ :: else -> break od;
    run Sweeper(); run Repeats(); run Client(); run Watchdog()
  }
}
