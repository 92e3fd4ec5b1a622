/*
 * The epoch switch: instances that share buffers and a store go from one epoch to the next while they run.
 *
 * Follows src/stretch/reference/{virtual,control,buffer}.py. README.md says what is modelled and what is not;
 * run.sh verifies this file, and lists the faults (each a name at an #ifdef here) that the verifier has to find.
 *
 * An `atomic` or `d_step` is one step that others see as a whole: one call of a buffer, or one write to what is
 * shared. Between two of them any other process may run. What a process does with its local variables goes along
 * with such a step, since nobody else can tell when it happens.
 *
 * Switches that are no faults:
 *   HEARTBEATS   an event of a source may be a heartbeat instead of a tuple
 *   INTERLEAVED  instances run while sources add; else they begin when the log is complete (README.md, Reduction)
 *   INSIDE       another protocol, without test-and-set: who arrives last changes the connections, all of them,
 *                and the handovers come last; the others go on after that
 */

#include "state.pml"
#include "buffers.pml"

/* --- Requests: any set of instances, so growing, shrinking, replacing some or all. The mapping turns with the number
       of the request, so the same set once more is a rebalance. */

/* Group g belongs to member (g + number) modulo size, in the order of their numbers. */
inline set_mapping(number)
{
    p = 0;
    do
    :: p < GROUPS ->
        n = (p + number) % size(instances[number]);
        i = 0;
        do
        :: has(instances[number], i) && n == 0 -> break
        :: has(instances[number], i) && n > 0 -> n--; i++
        :: else -> i++
        od;
        mapping[number].owner[p] = i;
        p++
    :: else -> break
    od
}

/* A request to which no entry belongs is never looked at again: one set is as good as another. */
inline choose_requests()
{
    at_position = 1;
    do
    :: at_position <= REQUESTS ->
        if
        :: log_size > 0 && !is_applied[at_position] -> instances[at_position] = EVERYONE
        :: else ->
        if
        :: instances[at_position] = 1
        :: instances[at_position] = 2
        :: instances[at_position] = 3
        :: instances[at_position] = 4
        :: instances[at_position] = 5
        :: instances[at_position] = 6
        :: instances[at_position] = 7
        fi
        fi;
        set_mapping(at_position);
        printf("epoch %d: instances %d%d%d (0, 1, 2), group 0 is of %d, group 1 of %d\n", at_position,
            has(instances[at_position], 0), has(instances[at_position], 1), has(instances[at_position], 2),
            mapping[at_position].owner[0], mapping[at_position].owner[1]);
        at_position++
    :: else -> break
    od
}

/* --- Instances (Paper: processVSN). */

#define owns(group) (mapping[epoch].owner[group] == self)
#define joining without(instances[pending], instances[epoch])
#define leaving without(instances[epoch], instances[pending])
#ifdef NUMBERS
#define some_join (size(instances[pending]) > size(instances[epoch]))
#define some_leave (size(instances[pending]) < size(instances[epoch]))
#else
#define some_join (joining != 0)
#define some_leave (leaving != 0)
#endif

#define triggers_switch (log[at].time > watermark && pending != NONE && log[at].time > switch_at)

/* An instance outside the epoch that has not come back to the pool yet may still call the buffers. */
#define is_back(number) (has(instances[epoch], number) || in_pool[number])
#define all_are_back (is_back(0) && is_back(1) && is_back(2))
#define have_arrived (arrived[pending] >= size(instances[epoch]))

#if defined(NO_BARRIER)
#define may_arrive true
#define may_change true
#elif defined(LATE_LEAVER) || defined(INSIDE)
#define may_arrive true
#define may_change have_arrived
#elif defined(WAIT_AFTER_ARRIVING)
#define may_arrive true
#define may_change (have_arrived && all_are_back)
#else
#define may_arrive all_are_back
#define may_change have_arrived
#endif

inline prepare_reconfiguration()
{
    if
#ifdef OLD_EPOCHS
    :: true ->
#else
    :: log[at].request > (pending == NONE -> epoch : pending) ->
#endif
        pending = log[at].request;
        switch_at = log[at].time
#ifndef OLD_EPOCHS
    :: else
#endif
    fi
}

/* What the output knows of this instance; joining ones begin with it. */
inline read_bound()
{
#ifdef TRIGGER_BOUND
    bound = before_results_at(log[at].time)
#else
    require(connected, out_bounds[self] != NONE);
    bound = out_bounds[self]
#endif
}

/* Called by the instance whose call was the first, says test-and-set. */
inline win()
{
    changed_by[pending]++;
    printf("instance %d: changes the connections for epoch %d\n", self, pending);
    require(one_winner, changed_by[pending] == 1)
}

/* The last part of a switch, local: on to the tuple that triggered it, or out. */
inline go_on()
{
    bound = 0;
    if
    :: has(instances[pending], self) ->
        epoch = pending;
        printf("instance %d: goes on in epoch %d\n", self, epoch);
#ifndef NO_PENDING
        pending = NONE;
        switch_at = 0;
#endif
        in_switch--;
        goto process
    :: else -> goto leave
    fi
}

/* One write per joining instance. */
inline hand_over()
{
    do
    :: atomic {
        todo != 0 ->
        i = (has(todo, 0) -> 0 : (has(todo, 1) -> 1 : 2));
        todo = without(todo, 1 << i);
        handovers[i].epoch = pending;
        handovers[i].watermark = watermark;
        printf("instance %d: hands epoch %d over to instance %d\n", self, pending, i)
    }
    :: else -> break
    od
}

/* The protocol. To see that all have arrived goes along with the first call: it stays true. */
inline change()
{
    atomic {
        may_change ->
        flag = false;
        if
        :: some_join -> add_sources(joining, bound)
        :: !some_join && some_leave -> remove_readers(leaving)
        :: else
        fi;
#ifdef NO_WINNER
        flag = some_join || some_leave;
#endif
        if
        :: flag -> win()
        :: else -> go_on()
        fi;
        if
        :: some_join -> todo = joining
        :: else -> goto disconnect_output
        fi
    }
    hand_over();
    atomic {
        add_readers(joining);
        if
        :: some_leave
        :: else -> go_on()
        fi
    }
    atomic { remove_readers(leaving) }
disconnect_output:
    atomic { remove_sources(leaving); go_on() }
}

/* The other protocol: all of it before anybody goes on, and the handovers last, since they let joining ones go on. */
inline change_inside()
{
    if
    :: atomic { has_arrived_last && (joining | leaving) != 0 -> win(); todo = joining };
#ifdef HANDOVERS_FIRST
        hand_over();
#endif
        atomic { add_sources(joining, bound) };
        atomic { add_readers(joining) };
        atomic { remove_readers(leaving) };
        atomic { remove_sources(leaving) };
#ifndef HANDOVERS_FIRST
        hand_over();
#endif
        atomic { is_changed[pending] = true; go_on() }
    :: atomic { has_arrived_last && (joining | leaving) == 0 -> is_changed[pending] = true; go_on() }
    :: atomic { !has_arrived_last && is_changed[pending] -> go_on() }
    fi
}

/* A fault: removing comes first, and somebody else may connect. */
inline change_remove_first()
{
    atomic {
        may_change ->
        flag = false;
        if
        :: some_leave -> remove_readers(leaving)
        :: else
        fi;
        if
        :: flag && !some_join -> win()
        :: else
        fi;
        if
        :: flag
        :: else -> goto connect
        fi
    }
    atomic { remove_sources(leaving) }
connect:
    atomic {
        flag = false;
        if
        :: some_join -> add_sources(joining, bound)
        :: else
        fi;
        if
        :: flag -> win(); todo = joining
        :: else -> go_on()
        fi
    }
    hand_over();
    atomic { add_readers(joining); go_on() }
}

/* A fault: joining instances are connected to the input before the output. */
inline change_input_first()
{
    atomic {
        may_change ->
        flag = false;
        if
        :: some_join -> add_readers(joining)
        :: !some_join && some_leave -> remove_readers(leaving)
        :: else
        fi;
        if
        :: flag -> win()
        :: else -> go_on()
        fi;
        if
        :: some_join -> todo = joining
        :: else -> goto disconnect_output
        fi
    }
    hand_over();
    atomic {
        add_sources(joining, bound);
        if
        :: some_leave
        :: else -> go_on()
        fi
    }
    atomic { remove_readers(leaving) }
disconnect_output:
    atomic { remove_sources(leaving); go_on() }
}

proctype instance(byte self)
{
    byte epoch, pending = NONE, switch_at, watermark, at, bound, todo;
    bool has_arrived_last;

wait_in_pool:
end_in_pool:
    atomic {
        handovers[self].epoch != NONE ->
        in_pool[self] = false;
        epoch = handovers[self].epoch;
        watermark = handovers[self].watermark;
        handovers[self].epoch = NONE;
        handovers[self].watermark = 0;
        printf("instance %d: starts in epoch %d\n", self, epoch)
    }

get:
end_get:
    atomic {
        read[self] != NONE && read[self] < log_size ->
        at = read[self];
        read[self]++;
        if
        :: log[at].kind == CONTROL -> prepare_reconfiguration(); at = 0; goto get
        :: log[at].kind != CONTROL && !triggers_switch -> goto process
        :: else ->
            in_switch++;
            printf("instance %d: entry %d triggers the switch from epoch %d to %d\n", self, at, epoch, pending)
        fi;
#ifndef BOUND_AFTER_BARRIER
        read_bound()
#endif
    }

    /* The barrier. Before it, wait for those that left in the last switch: their late calls would hit this one. */
    atomic {
        may_arrive ->
        arrived[pending]++;
        printf("instance %d: number %d at the barrier before epoch %d\n", self, arrived[pending], pending);
        require(switched_once, arrived[pending] <= size(instances[epoch]));
        has_arrived_last = have_arrived
    }
#ifdef BOUND_AFTER_BARRIER
    atomic { may_change -> read_bound() }
#endif

#if defined(INSIDE)
    change_inside();
#elif defined(REMOVE_FIRST)
    change_remove_first();
#elif defined(INPUT_FIRST)
    change_input_first();
#else
    change();
#endif

leave:
#ifdef LEAVER_READS_ON
    atomic { pending = NONE; switch_at = 0; has_arrived_last = false; in_switch--; goto process }
#endif
    atomic {
        in_pool[self] = true;
        printf("instance %d: is back in the pool\n", self);
        epoch = 0; pending = NONE; switch_at = 0; watermark = 0; at = 0; has_arrived_last = false;
        in_switch--;
        goto wait_in_pool
    }

    /* What the watermark lets expire, one result after the other; then the tuple; then the progress. */
process:
    atomic {
        require(one_boundary, epoch == log[at].epoch);
        watermark = log[at].time;
        i = 0;
        do
        :: i < GROUPS && !(owns(i) && open_until[i] != 0 && open_until[i] <= watermark) -> i++
        :: else -> break
        od;
        n = i;
        if
        :: n < GROUPS -> output_add(result_at(open_until[n], n)); open_until[n] = 0; goto process
        :: else
        fi;
        i = 0;
        do
        :: i < GROUPS && log[at].kind == DATA && owns(i) ->
            printf("instance %d: entry %d, group %d\n", self, at, i);
            require(processed_once, taken[i] == log[at].index);
            taken[i]++;
            require(windows_in_order, open_until[i] == 0 || open_until[i] == watermark + 1);
            open_until[i] = watermark + 1;
            i++
        :: i < GROUPS && !(log[at].kind == DATA && owns(i)) -> i++
        :: else -> break
        od
    }
    atomic {
#ifndef NO_PROGRESS
        output_advance(before_results_at(watermark + 1));
#endif
        at = 0;
        has_arrived_last = false;
        goto get
    }
}

/* --- The beginning and the end. */

inline begin()
{
    instances[0] = FIRST_INSTANCES;
    set_mapping(0);
    i = 0;
    do
    :: i < POOL ->
        handovers[i].epoch = NONE;
        if
        :: has(FIRST_INSTANCES, i) -> handovers[i].epoch = 0; read[i] = 0; out_bounds[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* Forget how the log came about, so that equal logs are one state. */
inline close_log()
{
    i = 0;
    do
    :: i < SOURCES ->
        do
        :: len(staged[i]) > 0 -> staged[i] ? p, k, n
        :: else -> break
        od;
        bounds[i] = 0; announced[i] = 0; sent[i] = 0;
        i++
    :: else -> break
    od;
    controls_made = 0;
    last_position = 0
}

/* Nothing can move any more. Afterwards `n` is the last epoch. */
inline check_end()
{
    require(no_deadlock, in_switch == 0);
    require(all_processed, taken[0] == log_tuples && taken[1] == log_tuples);
    require(all_processed, open_until[0] == 0 && open_until[1] == 0);
    require(all_processed, reached == before_results_at(END + 1));
    n = 0;
    i = 1;
    do
    :: i <= REQUESTS ->
        if
        :: arrived[i] != 0 ->
            require(switched_once, arrived[i] == size(instances[n]));
            require(one_winner, changed_by[i] == (instances[i] != instances[n] -> 1 : 0));
            n = i
        :: else ->
            require(nothing_left_behind, changed_by[i] == 0);
            /* Superseded by a later one, or no watermark came after its control tuple. */
            require(requests_settled,
                judged_epoch > i || (judged_pending != NONE && judged_pending >= i) || first_control[i] == 0);
            require(requests_settled, judged_pending != i || judged_switch_at == END)
        fi;
        i++
    :: else -> break
    od;
    require(one_boundary, n == judged_epoch);
    i = 0;
    do
    :: i < POOL ->
        require(connections_fit, (read[i] != NONE) == has(instances[n], i));
        require(connections_fit, (out_bounds[i] != NONE) == has(instances[n], i));
        require(connections_fit, in_pool[i] != has(instances[n], i));
        require(all_processed, read[i] == NONE || read[i] == log_size);
        require(nothing_left_behind, handovers[i].epoch == NONE);
        i++
    :: else -> break
    od
}

#ifdef LIVENESS
#define ALONE 2                  /* the claim counts as a process */
ltl comes_to_rest { <> finished }
ltl switches_complete { [] (in_switch > 0 -> <> (in_switch == 0)) }
#else
#define ALONE 1
#endif

init
{
    d_step { begin() }
#if defined(ONE_LOG)
    atomic { make_log(); choose_requests() }
#elif defined(INTERLEAVED)
    atomic { choose_requests() }
    atomic { run source(0); run source(1); run controller() }
#else
    atomic { run source(0); run source(1); run controller() }
    /* Nobody has looked at the requests so far: to choose them now is as good as before. */
    atomic { _nr_pr == ALONE -> close_log(); choose_requests() }
#endif
    atomic { run instance(0); run instance(1); run instance(2) }
    atomic { timeout -> check_end(); finished = true }
}
