/* The two buffers, the control queues, and who feeds them. Included by epoch_switch.pml. */

mtype = { DATA, WATERMARK, CONTROL };
SCRATCH mtype k;                 /* scratch, as in state.pml */

/*
 * Positions of the input, `(timestamp, order)`, as one number that compares as Python's tuples do:
 *   timestamp * SPAN                 (timestamp,), the bound that a heartbeat gives
 *   ... + count * (CONTROLS + 1)     a control tuple before all sources, by its count; the next CONTROLS numbers are
 *                                    for one that the same source adds right after it
 *   ... + AFTER_CONTROLS             what source 0 adds: tuples, and control tuples right after a tuple
 *   ... + AFTER_CONTROLS + BLOCK     the same of source 1
 */
#define CONTROLS (SOURCES * REQUESTS)
#define AFTER_CONTROLS ((CONTROLS + 1) * (CONTROLS + 1))
#define BLOCK (EVENTS + REQUESTS + 1) /* the last one is free: `(timestamp, source + 1)` */
#define SPAN (AFTER_CONTROLS + SOURCES * BLOCK)
#define time_of(position) ((position) / SPAN)
#define first_of(source, time) ((time) * SPAN + AFTER_CONTROLS + (source) * BLOCK)

/* Positions of the output, `(timestamp,)` and `(timestamp, group)`, in the same way. */
#define before_results_at(time) ((time) * (GROUPS + 1))
#define result_at(time, group) ((time) * (GROUPS + 1) + 1 + (group))

/* --- The input buffer: per source what is not ready yet, and its bound; the merged log; per reader what comes next. */

typedef Entry {
    mtype kind;
    byte time;
    byte request;                /* CONTROL: the epoch that it asks for */
    byte index;                  /* DATA: how many tuples come before it */
    byte epoch                   /* what the judge says: the epoch that the entry belongs to */
};
#define LOG (SOURCES * (EVENTS + REQUESTS) + END + 1)
Entry log[LOG];
byte log_size;
byte log_tuples;
short last_position;

chan staged[SOURCES] = [BLOCK + REQUESTS] of { short, mtype, byte }; /* position, kind, request */
short bounds[SOURCES];
byte read[POOL] = NONE;          /* NONE: not a reader */

/* --- The output buffer: a bound per instance. The egress has, or may have, all that comes before the least of them. */

byte out_bounds[POOL] = NONE;    /* NONE: not a source of the output */
byte reached;                    /* the egress may have a watermark that says: nothing more up to here */

/* --- The judge: says from the log alone, by the definition of an epoch, to which epoch each entry belongs. */

byte judged_epoch;
byte judged_pending = NONE;
byte judged_switch_at;
bool is_applied[REQUESTS + 1];   /* some entry belongs to that epoch */
byte first_control[REQUESTS + 1]; /* timestamp of the first control tuple of each request in the log; 0: none */

inline judge(kind_, time_, request_)
{
    if
    :: kind_ == CONTROL && first_control[request_] == 0 -> first_control[request_] = time_
    :: else
    fi;
    if
    :: kind_ == CONTROL && request_ > (judged_pending == NONE -> judged_epoch : judged_pending) ->
        judged_pending = request_;
        judged_switch_at = time_
    :: kind_ != CONTROL && judged_pending != NONE && time_ > judged_switch_at ->
        judged_epoch = judged_pending;
        is_applied[judged_epoch] = true;
        judged_pending = NONE;
        judged_switch_at = 0
    :: else
    fi
}

inline append(position_, kind_, request_)
{
    judge(kind_, time_of(position_), request_);
    log[log_size].kind = kind_;
    log[log_size].time = time_of(position_);
    log[log_size].request = request_;
    log[log_size].epoch = judged_epoch;
    if
    :: kind_ == DATA -> log[log_size].index = log_tuples; log_tuples++
    :: else
    fi;
    require(positions_grow, position_ >= last_position);
    last_position = position_;
    printf("log: entry %d is a %e at time %d (request %d), epoch %d\n",
        log_size, kind_, time_of(position_), request_, judged_epoch);
    log_size++
}

/* An entry is ready when the bound of the other source has reached its position, too. */
#ifdef READY_BY_TIME
#define is_ready(source, position) (time_of(bounds[1 - (source)]) >= time_of(position))
#else
#define is_ready(source, position) (bounds[1 - (source)] >= (position))
#endif

/* Delivers a watermark, unless what came last is one for that time already. */
inline append_watermark(time_)
{
    if
    :: time_ > time_of(last_position) -> append((time_) * SPAN, WATERMARK, 0)
    :: else
    fi
}

/* Moves what has become ready to the log, the earliest first, and a watermark if the bounds went further. Control
   tuples are no watermarks: one comes before them, so that they do not stand in for it. */
inline merge()
{
    do
    :: true ->
        n = NONE;
        if
        :: len(staged[0]) > 0 -> staged[0] ? <p, k, i>; n = 0
        :: else
        fi;
        if
        :: len(staged[1]) > 0 ->
            staged[1] ? <q, k, i>;
            if
            :: n == NONE || q < p -> p = q; n = 1
            :: else
            fi
        :: else
        fi;
        if
        :: n == NONE -> break
        :: n != NONE && !is_ready(n, p) -> break
        :: else
        fi;
        staged[n] ? p, k, i;
#ifndef CONTROL_FOR_WATERMARK
        if
        :: k == CONTROL -> append_watermark(time_of(p))
        :: else
        fi;
#endif
        append(p, k, i)
    od;
    p = (bounds[0] < bounds[1] -> bounds[0] : bounds[1]);
    append_watermark(time_of(p))
}

inline add(position_, kind_, request_)
{
    require(positions_grow, position_ > bounds[self]);
    printf("source %d: adds a %e at time %d (request %d)\n", self, kind_, time_of(position_), request_);
    staged[self] ! position_, kind_, request_;
    bounds[self] = position_;
    merge()
}

/* --- Control queues and sources (Paper: addSTRETCH): what waits goes right before the next tuple or heartbeat. */

byte announced[SOURCES];         /* how many requests are in the queue of a source, or were */
byte sent[SOURCES];              /* how many of them it has added */
byte controls_made;

/* A control tuple: right after what the source has added at this timestamp, or before all that any source adds. */
#define has_added_at(time) (bounds[self] >= first_of(self, time) && bounds[self] < first_of(self, time) + BLOCK - 1)
#define has_only_controls_at(time) (bounds[self] > (time) * SPAN && bounds[self] < (time) * SPAN + AFTER_CONTROLS)
#define next_control_(time) \
    (has_added_at(time) -> bounds[self] + 1 : \
    (has_only_controls_at(time) -> bounds[self] + controls_made : (time) * SPAN + controls_made * (CONTROLS + 1)))
#ifdef CONTROL_AFTER_HEARTBEAT   /* (timestamp,) is taken for an entry: (timestamp, count) is after source count - 1 */
#define next_control(time) (bounds[self] == (time) * SPAN -> \
    first_of((controls_made < SOURCES -> controls_made : SOURCES), time) - 1 : next_control_(time))
#else
#define next_control(time) next_control_(time)
#endif
#define next_tuple(time) (has_added_at(time) -> bounds[self] + 1 : first_of(self, time))

inline send_controls(time_)
{
    do
    :: atomic {
        sent[self] < announced[self] ->
        sent[self]++;
        controls_made++;
        at_position = next_control(time_);
        add(at_position, CONTROL, sent[self])
    }
    :: else -> break
    od
}

inline heartbeat(time_)
{
    if
    :: time_ * SPAN > bounds[self] ->
        send_controls(time_);
        atomic {
            if
            :: time_ * SPAN > bounds[self] ->
                printf("source %d: heartbeat at time %d\n", self, time_);
                bounds[self] = time_ * SPAN;
                merge()
            :: else
            fi
        }
    :: else
    fi
}

proctype source(byte self)
{
    byte time = 1, events;
    do
    :: events < EVENTS ->
        events++;
        if
        :: true
        :: time = time + 1
#if TIME_STEP > 1
        :: time = time + 2
#endif
        fi;
        if
        :: send_controls(time); atomic { at_position = next_tuple(time); add(at_position, DATA, 0) }
#ifdef HEARTBEATS
        :: true -> heartbeat(time)
#endif
        fi
    :: else -> break
    od;
    heartbeat(END)
}

/* The controller puts every request into the queue of each source, one queue after the other. */
proctype controller()
{
    byte number, told;
    do
    :: number < REQUESTS ->
        number++;
        told = 0;
        do
        :: told < SOURCES -> announced[told]++; told++
        :: else -> break
        od
    :: else -> break
    od
}

/* One log instead of all: a tuple, a request and another tuple at each timestamp, so that every request is applied. */
inline make_log()
{
    at_position = 1;
    do
    :: at_position <= REQUESTS ->
        append(at_position * SPAN + 1, DATA, 0);
        append(at_position * SPAN + 2, CONTROL, at_position);
        append(at_position * SPAN + 3, DATA, 0);
        at_position++
    :: else -> break
    od;
    append(at_position * SPAN, DATA, 0);
    append(END * SPAN, WATERMARK, 0)
}

/* --- The calls of readers. `flag` is what test-and-set says: this call added, or removed, any. */

#ifdef NEXT_TUPLE
#define START_OF_JOINING (read[self])
#else
#define START_OF_JOINING (read[self] - 1)
#endif

inline add_readers(set)
{
    require(connected, read[self] != NONE);
    flag = false;
    i = 0;
    do
    :: i < POOL ->
        if
        :: has(set, i) && read[i] == NONE ->
            read[i] = START_OF_JOINING; flag = true;
            printf("instance %d: makes instance %d a reader of the input\n", self, i)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline remove_readers(set)
{
    flag = false;
    i = 0;
    do
    :: i < POOL ->
        if
        :: has(set, i) && read[i] != NONE ->
            read[i] = NONE; flag = true;
            printf("instance %d: takes instance %d off the input\n", self, i)
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* --- The calls of the sources of the output, which are the instances. */

inline merge_output()
{
    p = NONE;
    i = 0;
    do
    :: i < POOL ->
        if
        :: out_bounds[i] < p -> p = out_bounds[i]
        :: else
        fi;
        i++
    :: else -> break
    od;
    if
    :: p != NONE && p > reached -> reached = p
    :: else
    fi
}

inline output_add(position_)
{
    require(connected, out_bounds[self] != NONE);
    printf("instance %d: a result at time %d; the egress was promised nothing before %d\n",
        self, (position_) / (GROUPS + 1), reached / (GROUPS + 1));
    require(output_in_order, position_ > reached);
#ifndef TRIGGER_BOUND            /* let the line above show what this fault does to the egress */
    require(positions_grow, position_ > out_bounds[self]);
#endif
    out_bounds[self] = position_;
    merge_output()
}

inline output_advance(bound_)
{
    require(connected, out_bounds[self] != NONE);
    if
    :: bound_ > out_bounds[self] -> out_bounds[self] = bound_; merge_output()
    :: else
    fi
}

inline add_sources(set, bound_)
{
    flag = false;
    i = 0;
    do
    :: i < POOL ->
        if
        :: has(set, i) && out_bounds[i] == NONE ->
            out_bounds[i] = bound_; flag = true;
            printf("instance %d: makes instance %d a source of the output\n", self, i)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline remove_sources(set)
{
    i = 0;
    do
    :: i < POOL ->
        if
        :: has(set, i) && out_bounds[i] != NONE ->
            out_bounds[i] = NONE;
            printf("instance %d: takes instance %d off the output\n", self, i)
        :: else
        fi;
        i++
    :: else -> break
    od;
    merge_output()
}
