/* Bounds, epochs, what processes share, and the properties. Included by epoch_switch.pml. */

#ifndef EVENTS
#define EVENTS 2                 /* tuples or heartbeats per source, before the heartbeat that ends it */
#endif
#ifndef TIME_STEP
#define TIME_STEP 1              /* how far the timestamp of a source may grow from one event to the next */
#endif
#ifndef REQUESTS
#define REQUESTS 1               /* reconfigurations that the controller asks for */
#endif

#define SOURCES 2
#define POOL 3
#define GROUPS 2
#define EVERYONE 7               /* all instances; sets are bit masks */
#define FIRST_INSTANCES 3        /* instances 0 and 1 run at first */

#define NONE 255
#define END (EVENTS * TIME_STEP + 2) /* the timestamp of the heartbeat that ends a source */

#define has(set, member) (((set) >> (member)) & 1)
#define without(set, other) ((set) & (EVERYONE - (other)))
#define size(set) (has(set, 0) + has(set, 1) + has(set, 2))

/* --- What must hold. Each is true until it is violated; the message of the verifier names it. */

bool positions_grow = true;      /* a source never adds before its bound; the log is sorted by position */
bool processed_once = true;      /* each group takes each tuple once, in the order of the log ... */
bool one_boundary = true;        /* ... from the owner in the epoch of its position: all switch at the same entry */
bool one_winner = true;          /* exactly one instance changes the connections of a switch, if they change */
bool switched_once = true;       /* an instance is at the barrier before an epoch once */
bool windows_in_order = true;    /* a window is reported before the next one of its group opens */
bool output_in_order = true;     /* nothing goes to the egress after a watermark that passed it */
bool connected = true;           /* who calls a buffer is one of its sources or readers */
bool no_deadlock = true;         /* when nothing can move, nobody is inside a switch */
bool all_processed = true;       /* at the end every group has taken every tuple, and every window is reported */
bool connections_fit = true;     /* at the end readers, output sources and pool are those of the last epoch */
bool requests_settled = true;    /* at the end each request is applied, superseded, or waits for input */
bool nothing_left_behind = true; /* at the end no handover is left, and superseded requests have changed nothing */

inline require(property, condition) { property = (condition); assert(property) }

/* --- Epochs: number 0 runs at first, request number e is epoch e. Written once, before anybody is told of them. */

byte instances[REQUESTS + 1];
typedef Mapping { byte owner[GROUPS] };
Mapping mapping[REQUESTS + 1];

/* --- What instances share besides the buffers. */

byte arrived[REQUESTS + 1];      /* at the barrier before that epoch */
byte changed_by[REQUESTS + 1];   /* how many instances changed connections for that epoch */
#ifdef INSIDE
bool is_changed[REQUESTS + 1];   /* the connections are those of that epoch: the barrier opens */
#endif
typedef Handover { byte epoch; byte watermark };
Handover handovers[POOL];        /* epoch NONE: none */
bool in_pool[POOL] = true;
byte in_switch;                  /* how many instances are inside a switch; only `no_deadlock` looks at it */

byte taken[GROUPS];              /* the store, per group: how many tuples it has taken ... */
byte open_until[GROUPS];         /* ... and the right boundary of its open window; 0 if none */

bool finished;                   /* the end came, and the checks of the end passed */

/* Scratch of single steps; no part of the state, except where breadth-first search does not know such variables. */
#ifdef SHORTEST
#define SCRATCH
#else
#define SCRATCH hidden
#endif
SCRATCH byte i, n, flag;
SCRATCH short p, q, at_position;
