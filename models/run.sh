#!/bin/sh
# Verifies the model of the epoch switch, and that the verifier finds every deliberate fault.
#
#   models/run.sh                all of it; a few minutes, at most 1.5 GB
#   models/run.sh quick          smaller bounds; well under a minute, 0.4 GB
#   models/run.sh trail FAULT    the shortest run that shows a fault, step by step
#
# Ends with 1 if the model fails or a fault is not found. Needs spin and a C compiler, and installs nothing.
set -eu

# Fault; what has to be defined besides it; the property ("-": assertions and end states); what it does.
faults='
NEXT_TUPLE;;-;joining readers start at the next tuple, not at the trigger
NO_BARRIER;;-;nobody waits for the others
TRIGGER_BOUND;-DEVENTS=1;-;joining sources start with the time of the trigger
REMOVE_FIRST;;-;one removes first, another one connects
LEAVER_READS_ON;;-;who leaves processes the trigger, too
NO_PENDING;;-;a switch does not ask for a pending epoch
OLD_EPOCHS;;-;control tuples of known epochs are taken
NO_WINNER;;-;test-and-set is not asked
NUMBERS;;-;numbers of instances are compared, not sets
INPUT_FIRST;;-;connected to the input before the output
NO_PROGRESS;;-;progress is not published
READY_BY_TIME;;-;ties are ready in the order of arrival
LATE_LEAVER;-DREQUESTS=2 -DONE_LOG;-;a switch does not wait for those who leave
WAIT_AFTER_ARRIVING;;-;... or waits for them at the barrier
WAIT_AFTER_ARRIVING;;switches_complete;... the same, by the temporal property
BOUND_AFTER_BARRIER;;-;the own bound is read after the barrier
CONTROL_AFTER_HEARTBEAT;-DHEARTBEATS;-;control passes tuples of a heartbeat time
CONTROL_FOR_WATERMARK;;-;control stands in for a watermark
HANDOVERS_FIRST;-DINSIDE -DREQUESTS=2 -DONE_LOG;-;(INSIDE) joining ones start too early
'

# What is verified, its definitions, and the property.
full='
one request, all logs of 2 events per source;-DREQUESTS=1 -DEVENTS=2;-
... events may be heartbeats;-DREQUESTS=1 -DEVENTS=2 -DHEARTBEATS;-
... timestamps may jump;-DREQUESTS=1 -DEVENTS=2 -DTIME_STEP=2;-
... 3 events per source;-DREQUESTS=1 -DEVENTS=3;-
two requests, all logs of 2 events per source;-DREQUESTS=2 -DEVENTS=2;-
four requests, one log;-DREQUESTS=4 -DEVENTS=4 -DONE_LOG;-
instances run while sources add;-DREQUESTS=1 -DEVENTS=1 -DHEARTBEATS -DINTERLEAVED;-
every run comes to rest;-DREQUESTS=1 -DEVENTS=2;comes_to_rest
every switch completes;-DREQUESTS=1 -DEVENTS=2;switches_complete
INSIDE: two requests, all logs;-DREQUESTS=2 -DEVENTS=2 -DINSIDE;-
INSIDE: four requests, one log;-DREQUESTS=4 -DEVENTS=4 -DONE_LOG -DINSIDE;-
'
quick='
one request, all logs of 2 events per source;-DREQUESTS=1 -DEVENTS=2;-
three requests, one log;-DREQUESTS=3 -DEVENTS=3 -DONE_LOG;-
instances run while sources add;-DREQUESTS=1 -DEVENTS=1 -DINTERLEAVED;-
every run comes to rest;-DREQUESTS=2 -DEVENTS=2 -DONE_LOG;comes_to_rest
every switch completes;-DREQUESTS=2 -DEVENTS=2 -DONE_LOG;switches_complete
INSIDE: three requests, one log;-DREQUESTS=3 -DEVENTS=3 -DONE_LOG -DINSIDE;-
'

models=$(cd "$(dirname "$0")" && pwd)
compiler=${CC:-gcc}

for tool in spin "$compiler"; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "models/run.sh needs $tool, which is not on this machine." >&2
        echo "Install it (Debian, Ubuntu: apt-get install spin gcc), or see https://spinroot.com." >&2
        exit 2
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$models"/*.pml "$work"
cd "$work"

# verify DEFINITIONS PROPERTY COMPILER_FLAGS: leaves the verifier's report in `report`.
verify() {
    if [ "$2" = - ]; then
        kind=-DSAFETY claim=
        definitions=$1
    else
        kind= claim="-a -A -N $2" # -A: leave assertions to the other runs
        definitions="$1 -DLIVENESS"
    fi
    # shellcheck disable=SC2086
    spin -a $definitions epoch_switch.pml >report 2>&1 &&
        "$compiler" -w -DMEMLIM=2000 $kind $3 -o pan pan.c >>report 2>&1 &&
        ./pan -m20000 $claim >report 2>&1 || :
}

# Complete: the whole state space was searched. Found: an error is in it.
is_complete() {
    grep -q 'errors: 0' report &&
        ! grep -q -e 'Search not completed' -e 'max search depth too small' -e 'MEMLIM bound' report
}
is_found() { grep -q '^pan:1: \(assertion violated\|acceptance cycle\|invalid end state\)' report; }

states() { awk '/states, stored/ { print $1; exit }' report; }
seconds() { awk '/^pan: elapsed time/ { print $4; exit }' report; }
reason() { sed -n 's/^pan:1: \(assertion violated \)\{0,1\}\(.*\) (at depth.*/\2/p' report | head -1; }

bad=0
row() { printf '%-66s %9s  %-17s %7s\n' "$@"; }
complain() {
    bad=1
    tail -20 report >&2
}

trail() {
    line=$(echo "$faults" | grep "^$1;" | head -1)
    [ -n "$line" ] || { echo "models/run.sh: there is no fault $1; they are: "$(echo "$faults" | cut -d ';' -f 1 | uniq) >&2; exit 2; }
    definitions="-D$1 $(echo "$line" | cut -d ';' -f 2) -DSHORTEST"
    verify "$definitions" - "-O1 -DBFS"
    is_found || { complain; exit 1; }
    # shellcheck disable=SC2086
    spin -t $definitions epoch_switch.pml | sed '/^spin: trail ends/,$d'
}

case ${1:-full} in
    full) runs=$full ;;
    quick) runs=$quick ;;
    trail) trail "${2:?which fault?}"; exit 0 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$models/run.sh"; exit 2 ;;
esac

row "the model holds" states result seconds
while IFS=';' read -r name definitions property; do
    [ -n "$name" ] || continue
    verify "$definitions" "$property" "-O2 -DCOLLAPSE"
    if is_complete; then result=holds; else result="FAILS: $(reason)"; fi
    row "$name" "$(states)" "$result" "$(seconds)"
    is_complete || complain
done <<END
$runs
END

echo
row "a fault is found" states "by" seconds
while IFS=';' read -r fault definitions property name; do
    [ -n "$fault" ] || continue
    verify "-D$fault $definitions" "$property" "-O0 -DCOLLAPSE"
    if is_found; then result=$(reason); else result="NOT FOUND"; fi
    row "$fault: $name" "$(states)" "$result" "$(seconds)"
    is_found || complain
done <<END
$faults
END
exit $bad
