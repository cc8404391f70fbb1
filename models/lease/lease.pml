/* Who may act on a run, and when it may be said that nobody does any more.
 *
 * An owner (its control thread and its event loop), the owner's warden with one tool, the store, any
 * number of processes that take over one after another, a person who cancels, and a clock. Every fault is a
 * choice that the checker makes in all ways: a process that is stopped is one that does not get its turn, for
 * as long as the checker likes; a message to or from the store is late or lost, and a partition is all of
 * them lost; the warden alone has a bound, SLOW, because its guard continues it. README.md tells what the
 * switches (#ifdef) stand for.
 *
 * Time is kept as what is left of it, so that it has no end here: a lease whose end is in n ticks is END + n,
 * and what has lapsed for longer than END is simply over.
 */

#ifndef TTL
#define TTL 3 /* how long a lease lasts */
#endif
#ifndef BEFORE
#define BEFORE 1 /* the warden's margin: it freezes this long before the lease's end */
#endif
#ifndef AFTER
#define AFTER 1 /* the margin of who takes over: it says "in effect" this long after the lease's end */
#endif
#ifndef SLOW
#define SLOW 1 /* the longest that the warden takes, awake, to do what is due, be it stopped or busy; its guard likewise */
#endif
#define END AFTER /* "now", as a lease's end */

/* The store. What it does is done in one step. */
mtype = { owner, taker, nobody };
mtype holder = owner;    /* whose epoch it is; the owner's is over for good when it is not the owner's */
byte until = END + TTL;  /* the end of the present lease */
byte quiet = 0;          /* the latest end of any lease that was taken over */
bool cancelling = false; /* a person has asked for it */
bool in_effect = false;  /* a receipt says that it is over */
bool intent = false;     /* the owner's in-process step is recorded, and has no result */
bool named = false;      /* the receipt names that step as possibly still acting */
bool unheard = false;    /* the receipt says that the old owner's warden has not answered */

/* The owner: its renewal, its own count of the lease's end, its in-process step. */
mtype = { idle, sent, granted, refused };
mtype renewal = idle;
byte renewed = 0; /* the lease's end if the renewal under way is granted, counted from before it was sent */
byte owner_end = END + TTL;
mtype = { none, recorded, looked, acting, finished };
mtype step = none;
bool killed = false; /* the owner, and who takes over can see that: it is on the same machine */

/* What the owner has told the warden, and the warden has not read yet. */
byte told_end = 0;
bool told_start = false, told_stop = false, told_fenced = false;
bool started = false, tool_ended = false;

/* The warden, and whoever asks it. */
mtype = { nothing, forking, running, dead };
mtype tool = nothing;
byte warden_end = END + TTL;
bool frozen = false, thawing = false, fenced = false, asked = false, answered = false;
bool gone = false;    /* the warden was killed */
byte lag = 0;         /* for how long the warden, or its guard, has not done what is due */

/* The machine of the owner and its warden. */
bool asleep = false;
bool overslept = false; /* it slept while the warden had something to do */
byte awake_left = 0; /* ticks awake that who has taken over still waits */
#ifdef OTHER
#define same false
#else
#define same true /* who takes over is on this machine */
#endif

#define TOOL_ACTS (tool == running && !frozen && !asleep)
#define OWNER_RUNS (!asleep && !killed)
#define TAKER_RUNS !(same && asleep)

#ifdef NO_LEASE_IN_WARDEN
#define LICENSED true
#else
#define LICENSED (warden_end > END + BEFORE)
#endif

/* What is due about the tool, and is not done; and whoever has to do it has had its time: the clock waits. */
#define DUE ((tool == forking || thawing || (tool == running && !frozen)) && (gone || killed || !LICENSED))
#define OVERDUE (!asleep && DUE && lag >= SLOW)

#define LESS(x) if :: x > 0 -> x-- :: else fi

active proctype Clock()
{
	do
	:: atomic { !OVERDUE ->
		if
		:: DUE && asleep -> overslept = true
		:: DUE && !asleep -> lag++
		:: !DUE -> lag = 0
		fi;
		LESS(until); LESS(quiet); LESS(renewed); LESS(told_end); LESS(warden_end);
#ifndef ONLY_TOOL
		LESS(owner_end);
#endif
		if :: !asleep -> LESS(awake_left) :: else fi;
		printf("- a tick -\n") }
	od
}

active proctype World()
{
	do
	:: atomic { !cancelling -> cancelling = true; printf("a person cancels\n") }
	:: atomic { renewal == sent && holder == owner -> until = END + TTL; renewal = granted; printf("the store grants the renewal\n") }
	:: atomic { renewal == sent && holder != owner -> renewal = refused; printf("the store refuses the renewal: fenced\n") }
	:: atomic { renewal != idle -> renewal = idle; renewed = 0; printf("the renewal, or its answer, is lost\n") }
#ifdef WARDEN_DIES
	:: atomic { !gone && !asleep -> gone = true; lag = 0; printf("the warden is killed\n") }
	:: atomic { gone && !asleep && tool != dead -> tool = dead; thawing = false; printf("the guard ends the tool\n") }
#endif
#ifdef OWNER_DIES
	:: atomic { !killed && !asleep -> killed = true; printf("the owner is killed\n") }
#endif
#ifdef SLEEP
	:: atomic { !asleep -> asleep = true; printf("the owner's machine sleeps\n") }
	:: atomic { asleep -> asleep = false; printf("the owner's machine wakes\n") }
#endif
	od
}

active proctype Control() /* the owner's control thread */
{
	do
	:: atomic { OWNER_RUNS && renewal == idle && told_end == 0 -> renewal = sent; renewed = END + TTL; printf("the owner sends a renewal\n") }
	:: atomic { OWNER_RUNS && renewal == granted ->
#ifdef END_FROM_ANSWER
		renewed = END + TTL;
#endif
#ifndef ONLY_TOOL
		owner_end = renewed;
#endif
		told_end = renewed; renewed = 0; renewal = idle; printf("the owner hears that it is granted, and tells the warden\n") }
	:: atomic { OWNER_RUNS && renewal == refused -> told_fenced = true; renewed = 0; renewal = idle; printf("the owner hears that it is fenced, and tells the warden\n") }
	:: atomic { OWNER_RUNS && cancelling && !told_stop && !tool_ended -> told_stop = true; printf("the owner hears of the cancel, and tells the warden\n") }
	:: atomic { OWNER_RUNS && tool_ended && (step == none || step == finished) && holder == owner && !in_effect -> in_effect = true; until = 0; quiet = 0; named = intent; printf("the owner says: in effect\n") }
	od
}

active proctype Loop() /* the owner's event loop: a tool for the warden, and in-process steps one after another */
{
	do
#ifndef ONLY_STEP
	:: atomic { OWNER_RUNS && holder == owner && !cancelling && !started -> started = true; told_start = true; printf("the owner records a tool's call, and sends it to the warden\n") }
#endif
#ifndef ONLY_TOOL
	:: atomic { OWNER_RUNS && holder == owner && !cancelling && step == none -> intent = true; step = recorded; printf("the owner records an in-process step\n") }
#ifdef NO_LOOK
	:: atomic { OWNER_RUNS && step == recorded -> step = looked }
#else
	:: atomic { OWNER_RUNS && step == recorded && owner_end > END + BEFORE -> step = looked; printf("the owner looks at its lease: it may call\n") }
#endif
	:: atomic { OWNER_RUNS && step == looked -> step = acting; printf("the owner calls the function\n") }
	:: atomic { OWNER_RUNS && step == acting && holder == owner && !in_effect -> intent = false; step = none; printf("the step's result is recorded\n") }
	:: atomic { OWNER_RUNS && step == acting && (holder != owner || in_effect) -> step = finished; printf("the step's result is recorded as late\n") }
	:: atomic { OWNER_RUNS && step == acting ->
		if :: in_effect -> printf("THE FUNCTION ACTS AFTER IN EFFECT\n") :: else fi;
#ifdef WITHOUT_EXCEPTION
		assert(!in_effect)
#else
		assert(!in_effect || named)
#endif
		}
#endif
	:: atomic { OWNER_RUNS && holder == owner && !in_effect -> skip } /* a stream's text is shown: a write, refused by the store otherwise */
	od
}

active proctype Warden()
{
	do
	:: atomic { !gone && !asleep && told_end > 0 ->
		if :: told_end > warden_end -> warden_end = told_end :: else fi;
		told_end = 0; printf("the warden reads of the renewal\n") }
	/* It looks and it does: two steps, and between them it may be stopped, or the machine sleep. */
	:: atomic { !gone && !asleep && frozen && !thawing && tool == running && LICENSED && !fenced && !killed -> thawing = true; printf("the warden looks: it may thaw\n") }
	:: atomic { !gone && !asleep && thawing -> thawing = false; frozen = false; printf("the warden thaws the tool\n") }
	:: atomic { !gone && !asleep && told_start && tool == nothing && LICENSED && !fenced && !killed -> told_start = false; tool = forking; printf("the warden looks: it may start\n") }
	:: atomic { !gone && !asleep && told_start && (tool != nothing || !LICENSED || fenced || killed) -> told_start = false; printf("the warden refuses to start\n") }
	:: atomic { !gone && !asleep && tool == forking -> tool = running; printf("the warden starts the tool\n") }
	:: atomic { !gone && !asleep && tool == running && !thawing && !frozen && !LICENSED -> frozen = true; printf("the warden freezes the tool\n") }
	:: atomic { !gone && !asleep && told_stop && !tool_ended && tool != forking && !thawing -> tool = dead; tool_ended = true; printf("the warden ends the tool, as told\n") }
	:: atomic { !gone && !asleep && told_fenced && tool != forking && !thawing ->
		assert(holder != owner); told_fenced = false; fenced = true; tool = dead; printf("the warden ends the tool: fenced\n") }
	:: atomic { !gone && !asleep && killed && tool != dead && tool != forking && !thawing -> tool = dead; printf("the warden ends the tool: its owner is gone\n") }
#ifdef ASK_THEN_CLAIM
	:: atomic { !gone && !asleep && asked && !answered && tool != forking && !thawing && !TOOL_ACTS -> answered = true; printf("the warden answers: nothing acts\n") }
#else
	:: atomic { !gone && !asleep && asked && !answered && tool != forking && !thawing ->
		assert(holder != owner); fenced = true; tool = dead; answered = true; printf("the warden ends the tool, and answers\n") }
#endif
	od
}

active proctype Tool() /* it acts whenever it can */
{
	do
	:: atomic { TOOL_ACTS ->
		if :: in_effect -> printf("THE TOOL ACTS AFTER IN EFFECT\n") :: else fi;
#ifdef EXCEPT_AFTER_SLEEP
		assert(!in_effect || (!same && unheard && overslept))
#else
		assert(!in_effect)
#endif
		}
	od
}

#ifdef SAY_WHEN_CLAIMED
#define WAITED true
#else
#define WAITED (quiet + AFTER <= END && awake_left == 0)
#endif

#ifdef GONE_IS_ANSWER
#define ANSWERED (answered || gone || killed)
#else
#define ANSWERED answered
#endif

active proctype Taker() /* whoever it is that has taken over last: one that was fenced can say nothing */
{
	do
	:: atomic { TAKER_RUNS && !in_effect && (until <= END || (same && killed && holder == owner)) ->
#ifdef FORGETS
		quiet = until;
#else
		if :: until > quiet && !(same && killed) -> quiet = until :: else fi;
#endif
		until = END + TTL; holder = taker;
#ifndef MARGIN_IN_BOOT_TIME
		if :: same -> awake_left = BEFORE + AFTER :: else fi;
#endif
		printf("another process takes over\n") }
#ifdef ASK_THEN_CLAIM
	:: atomic { TAKER_RUNS && same && holder != taker && !asked -> asked = true; printf("who would take over asks the warden\n") }
#else
	:: atomic { TAKER_RUNS && same && holder == taker && !asked -> asked = true; printf("who has taken over asks the warden\n") }
#endif
	:: atomic { TAKER_RUNS && holder == taker && cancelling && !in_effect && ((same && ANSWERED) || WAITED) ->
		in_effect = true; until = 0; quiet = 0; named = intent; unheard = !answered; printf("who has taken over says: in effect\n") }
	:: atomic { TAKER_RUNS && holder == taker && !in_effect -> until = 0; holder = nobody; printf("who has taken over closes, and gives the run back\n") }
	od
}

/* Is it possible at all? The checker must find the way there. */
#ifdef REACH_THAW
active proctype Reach() { atomic { thawing && holder == owner && !asked -> assert(false) } }
#endif
#ifdef REACH_ANSWERED
active proctype Reach() { atomic { in_effect && answered && holder == taker -> assert(false) } }
#endif
#ifdef REACH_WAITED
active proctype Reach() { atomic { in_effect && unheard && frozen && holder == taker -> assert(false) } }
#endif
