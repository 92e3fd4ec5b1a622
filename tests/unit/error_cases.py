"""How to make every error of the library happen: name -> what a user did wrong. Their texts are in error_texts.txt."""

import datetime as dt
from argparse import Namespace
from operator import and_

import pyarrow as pa

import stretch as st
from stretch.cli import simulate
from stretch.controllers import Trace
from stretch.reference.scheduler import Scheduler, Turn
from stretch.runtime.setup import _never
from tests.unit.streams import batch, counting, started, visits

SIMULATED = Namespace(trace="phases", seed=0, controller="model", set=["speed=9"])
TIMED = "ts timestamp, x int"
SIDES = ["ts long, x long", "ts long, y long"]
UNSUPPORTED = pa.record_batch({"ts": pa.array([1]), "day": pa.array([dt.date(2018, 10, 1)])})
NANOSECONDS = pa.record_batch({"ts": pa.array([1_001]).cast(pa.timestamp("ns"))})


def always(l, r):
    return True


def fails(*_):
    raise ValueError("no luck today")


def operator(**settings):
    """Report each window's key and count."""
    own = {
        "window": st.tumbling(10),
        "keys": "user",
        "state": "n long",
        "update": lambda w, t: None,
        "output": lambda w: [(w.key, w.n)],
        "schema": "user string, n long",
    }
    return st.Operator(**{**own, **settings})


def join(**settings):
    return st.Join(**{"window": st.sliding(10), "match": always, "inputs": SIDES, **settings})


def run(declared, *batches, **settings):
    """Set a job up, add batches to source after source, and finish."""
    with st.setup(declared, **settings) as job:
        for source, each in enumerate(batches or [visits((1, "a", 2))]):
            job.add(each, source)
        return job.finish()


def ended(action, end="finish"):
    job = started()
    getattr(job, end)()
    action(job)


def after_a_failure():
    job = started(operator(update=fails))
    try:
        job.add(visits((1, "a", 2)))
    except st.FunctionError:
        job.results()


def never_at_rest():
    scheduler = Scheduler(seed=7)
    scheduler.spawn("busy", (Turn.RAN for _ in iter(int, 1)))
    scheduler.run(turns_max=1_000)


DURATIONS = {
    "a duration without a unit": lambda: st.sliding("5"),
    "a duration in a unit that has no fixed length": lambda: st.sliding("3 months"),
    "a duration with a fraction": lambda: st.sliding("1.5 hours"),
    "a duration as a float": lambda: st.sliding(5.0),
    "text with a long time column": lambda: started(counting(window=st.tumbling("5 minutes"))),
    "an int with a timestamp column": lambda: st.setup(counting(window=st.tumbling(5), keys="x"), inputs=TIMED),
}

WINDOWS = {
    "an empty window": lambda: st.sliding("0 seconds"),
    "a window that stands still": lambda: st.sliding(10, 0),
    "an advance above the size": lambda: st.sliding("1 hour", "2 hours"),
    "size and advance in different units": lambda: st.sliding("1 hour", 5),
    "a kind that does not exist": lambda: st.sliding(10, 5, kind="hopping"),
    "a size below the resolution": lambda: started(join(window=st.sliding(5)), inputs=SIDES, resolution=7),
    "too many windows per tuple": lambda: started(counting(window=st.sliding(1_000_000, 1))),
}

SCHEMAS = {
    "no schema": lambda: st.input(""),
    "a column without a type": lambda: operator(schema="user, n long"),
    "a type that is not supported": lambda: operator(schema="user string, price money"),
    "a type of several parts": lambda: operator(schema="price decimal(10,2), place struct<x: int, y: int>"),
    "a column twice": lambda: operator(schema="n long, n long"),
    "inputs that are none": lambda: operator(inputs=0),
}

OPERATORS = {
    "no window": lambda: operator(window="1 hour"),
    "a name that is none": lambda: operator(name=5),
    "too many key groups": lambda: operator(groups=100_000),
    "a state field of text": lambda: operator(state="name string"),
    "a state field with a name in use": lambda: operator(state="left long"),
    "a function that is none": lambda: operator(update="n + 1"),
    "a function with other parameters": lambda: operator(output=always),
    "keys that are none": lambda: operator(keys=5),
    "no function at all": lambda: operator(update=None, output=None),
    "a sliding state without slide": lambda: operator(window=st.sliding(10, 5, kind="single")),
    "a map without a function": lambda: st.Map(None, schema="x int"),
    "not an operator": lambda: st.setup("wordcount"),
}

AGGREGATES = {
    "nothing to aggregate": lambda: st.Aggregate(window=st.tumbling(10), keys="user"),
    "not an aggregate function": lambda: counting(visits=max),
    "an aggregate called like a setting": lambda: counting(name=st.max("pages")),
    "an aggregate called like the time": lambda: started(counting(ts=st.count())),
    "an aggregate of two inputs": lambda: counting(inputs=2),
    "an aggregate without an advance": lambda: counting(window=st.sliding(10)),
    "an aggregate called like the key": lambda: started(counting(user=st.count())),
    "an aggregate of a column that does not exist": lambda: started(counting(most=st.max("page"))),
    "an aggregate of the time": lambda: started(counting(latest=st.max("ts"))),
    "a sum of text": lambda: started(counting(total=st.sum("user"))),
    "the largest of lists": lambda: st.setup(counting(keys=None, n=st.max("x")), inputs="ts long, x array<int>"),
    "keys of a column that does not exist": lambda: started(counting(keys="usr")),
    "keys of the time column": lambda: started(counting(keys="ts")),
    "keys of a column of a type that is not supported": lambda: run(counting(keys="day"), UNSUPPORTED),
    "words of a number": lambda: started(counting(keys=st.words("pages"))),
    "keys that are floats": lambda: st.setup(counting(keys="x"), inputs="ts long, x double"),
    "a list among several key columns": lambda: st.setup(
        counting(keys=["x", "y"]), inputs="ts long, x array<int>, y int"
    ),
    "a function as keys of an aggregate": lambda: started(counting(keys=lambda t: t.user)),
    "a name for several key columns": lambda: started(counting(keys=["user", "pages"], key_name="who")),
    "a name for pairs": lambda: started(counting(keys=st.pairs("user"), key_name="pair")),
}

JOINS = {
    "a join without a predicate": lambda: join(match=None),
    "a join of one input": lambda: join(inputs=1),
    "rows of a join without a schema": lambda: join(output=lambda l, r: (l.x, r.y)),
    "a join that does not exist": lambda: join(how="outer"),
    "rows of one's own for tuples alone": lambda: join(how="left", output=lambda l, r: (l.x, 0), schema="x int, y int"),
    "tuples alone in windows that overlap": lambda: started(
        join(how="left", window=st.sliding(10, 5, "multi")), inputs=SIDES
    ),
    "a stream joined with another as itself": lambda: started(join(self_join=True), inputs=SIDES),
    "a window and an interval": lambda: join(before=5, after=5),
    "half an interval": lambda: join(window=None, before=5),
    "an interval in two units": lambda: join(window=None, before=5, after="5 seconds"),
    "an interval below zero": lambda: started(join(window=None, before=-5, after=9), inputs=SIDES),
    "the printed purge with an interval": lambda: join(window=None, before=5, after=9, printed_purge=True),
    "a band of what is no column name": lambda: st.band(1, "y", 10),
    "a band below zero": lambda: st.band("x", "y", -1),
    "a band and a number": lambda: and_(st.band("x", "y", 1), 5),
    "a band of a column that does not exist": lambda: started(join(match=st.band("x", "z", 1)), inputs=SIDES),
    "a band of text": lambda: st.setup(
        join(match=st.band("x", "s", 1), inputs=["ts long, x int", "ts long, s string"])
    ),
    "a band of a number and a timestamp": lambda: st.setup(
        join(match=st.band("x", "at", 1), inputs=["ts long, x long", "ts long, at timestamp"])
    ),
    "a band of numbers with a length of time": lambda: started(join(match=st.band("x", "y", "1 second")), inputs=SIDES),
    "the printed purge with an advance": lambda: started(
        join(window=st.sliding(10, 5), printed_purge=True), inputs=SIDES
    ),
}

SETUPS = {
    "an engine that does not exist": lambda: started(engine="turbo"),
    "no instance": lambda: started(parallelism=0),
    "instances as text": lambda: started(max_parallelism="4"),
    "more instances than the pool has": lambda: started(parallelism=4, max_parallelism=2),
    "no source": lambda: started(sources=0),
    "sources for two inputs": lambda: started(sources=[1, 2]),
    "an idle timeout without a unit": lambda: started(idle=5),
    "an idle timeout of nothing": lambda: started(idle="0 seconds"),
    "disorder below zero": lambda: started(watermark=-3),
    "a step of nothing": lambda: started(resolution=0),
    "two inputs whose columns are not known": lambda: st.setup(join(inputs=2)),
    "one schema for two inputs": lambda: started(join()),
    "a time column that does not exist": lambda: started(time="when"),
    "a time column of text": lambda: started(time="user"),
    "a time column of a type that is not supported": lambda: run(counting(keys="ts"), UNSUPPORTED, time="day"),
    "times that cannot be compared": lambda: started(join(), inputs=["ts long, x int", "ts timestamp, y int"]),
    "another column called timestamp": lambda: started(inputs="ts long, user string, timestamp long"),
    "a chained job with sources": lambda: st.setup(counting(), upstream=started(), sources=2),
    "a chained job with an engine": lambda: st.setup(counting(), upstream=started(), engine="shared-nothing", seed=7),
    "a job after something else": lambda: st.setup(counting(), upstream="first"),
    "a job after shared-nothing": lambda: st.setup(counting(), upstream=started(engine="shared-nothing")),
}

MAPPINGS = {
    "a mapping that is too short": lambda: started(counting(mapping=[0, 0])),
    "a mapping to an instance that does not run": lambda: started(counting(mapping=lambda group, parallelism: 5)),
    "a mapping that is none": lambda: started(counting(mapping=3)),
    "a mapping that fails": lambda: started(counting(mapping=fails)),
    "a change to text": lambda: started().reconfigure("2"),
    "a change to no instance": lambda: started().reconfigure(0),
    "a change that contradicts itself": lambda: started(max_parallelism=3).reconfigure(3, instances=[0, 1]),
    "a change beyond the pool": lambda: started(max_parallelism=3).reconfigure(4),
    "an instance twice": lambda: started(max_parallelism=3).reconfigure(instances=[1, 1]),
}

INPUTS = {
    "rows that are not Arrow": lambda: started().add([{"ts": 1}]),
    "adding with a time that is none": lambda: started().add(visits((1, "a", 2)), timeout=-1),
    "a source that does not exist": lambda: started(sources=2).add(visits((1, "a", 2)), source=2),
    "a batch without a column": lambda: started().add(batch("ts long, user string", (1, "a"))),
    "a column of another type": lambda: started().add(batch("ts long, user string, pages string", (1, "a", "two"))),
    "a value that does not fit": lambda: started(inputs="ts long, user string, pages byte").add(visits((1, "a", 200))),
    "a time between two microseconds": lambda: run(counting(window=st.tumbling("1 second"), keys=None), NANOSECONDS),
    "a heartbeat that is no time": lambda: started().watermark("ten"),
    "a heartbeat that is no timestamp": lambda: st.setup(
        counting(window=st.tumbling("1 second"), keys="x"), inputs=TIMED
    ).watermark("10:00"),
    "a row without a time": lambda: started().add(visits((1, "a", 2), (None, "b", 2))),
}

FUNCTIONS = {
    "keys fails": lambda: run(operator(keys=fails)),
    "update fails": lambda: run(operator(update=fails)),
    "output fails": lambda: run(operator(output=fails)),
    "slide fails": lambda: run(operator(window=st.sliding(10, 5, kind="single"), slide=fails)),
    "match fails": lambda: run(join(match=fails, groups=1), batch(SIDES[0], (1, 2)), batch(SIDES[1], (1, 2))),
    "the function of a map fails": lambda: run(st.Map(fails, schema="x int")),
    "a state field that does not exist": lambda: run(operator(update=lambda w, t: w.total)),
    "setting what is no state field": lambda: run(operator(update=lambda w, t: setattr(w, "total", 1))),
    "a state field that is nothing": lambda: run(operator(update=lambda w, t: setattr(w, "n", None))),
    "a state field of another type": lambda: run(operator(update=lambda w, t: setattr(w, "n", "one"))),
    "a column that a tuple does not have": lambda: run(operator(update=lambda w, t: t.page)),
    "what is no row": lambda: run(operator(output=lambda w: len(w.tuples))),
    "text instead of rows": lambda: run(operator(output=lambda w: w.key)),
    "rows of a join that are too short": lambda: run(
        join(output=lambda l, r: l.x, schema="x int, y int", groups=1), batch(SIDES[0], (1, 2)), batch(SIDES[1], (1, 2))
    ),
    "rows that are too short": lambda: run(operator(output=lambda w: [w.key])),
    "rows of other types": lambda: run(operator(output=lambda w: [(w.n, w.key)])),
    "a float as a key": lambda: run(operator(keys=lambda t: [t.pages / 2])),
    "a key beyond 64 bits": lambda: run(operator(keys=lambda t: 1 << 63)),
    "a key that is no group": lambda: run(operator(keys_are_groups=True)),
}

ELASTICITY = {
    "no number of instances": lambda: st.elastic(0, 8),
    "more instances at least than at most": lambda: st.elastic(4, 2),
    "an elastic parallelism of the reference engine": lambda: started(parallelism=st.elastic(1, 8)),
    "a controller that is none": lambda: st.elastic(1, 8, controller="threshold"),
    "an interval without a unit": lambda: st.elastic(1, 8, interval=5),
    "an interval that is too short": lambda: st.elastic(1, 8, interval="1 ms"),
    "limits in percent": lambda: st.ThresholdController(upper=90),
    "limits in the wrong order": lambda: st.ThresholdController(lower=0.8),
    "a trace that is none": lambda: Trace.read("trace-of-nothing.csv"),
    "a trace of nothing": lambda: Trace.of([]),
    "a setting that no controller has": lambda: simulate.run(SIMULATED),
    "a step of no instance": lambda: st.ThresholdController(step=0),
}

JOBS = {
    "results before the columns are known": lambda: st.setup(counting()).results(),
    "input to a chained job": lambda: st.setup(counting(keys=None), upstream=started()).add(visits()),
    "input from a closed source": lambda: ended(lambda job: job.add(visits()), end="close"),
    "input after the end": lambda: ended(lambda job: job.add(visits())),
    "a change after a stop": lambda: ended(lambda job: job.reconfigure(1), end="stop"),
    "results after a failure": after_a_failure,
    "an engine that never rests": never_at_rest,
    "an engine that was never made": lambda: _never(None),
}

TESTING = {
    "a test without the rows of an input": lambda: st.testing.run(join(), {"left": []}),
    "a test of rows without columns": lambda: st.testing.run(counting(), []),
}

CASES = {
    **DURATIONS,
    **WINDOWS,
    **SCHEMAS,
    **OPERATORS,
    **AGGREGATES,
    **JOINS,
    **SETUPS,
    **MAPPINGS,
    **INPUTS,
    **FUNCTIONS,
    **ELASTICITY,
    **JOBS,
    **TESTING,
}
