"""The public API: a change of these names and parameters is a change for users, and goes into CHANGELOG.md."""

import inspect
import tomllib
from pathlib import Path

import pytest

import stretch as st

NAMES = """
Aggregate BalanceController Controller Decision DefinitionError FunctionError Input InputError Job JobError Join Load
Map Metrics ModelController Operator Reconfiguration ReconfigurationError StateError StretchError ThresholdController
Window band controllers count elastic first hashtags input last live max mean min pairs paper purge remaining setup
sliding store sum testing tumbling words
"""

PAPER = "forwarder hedge longest_tweet longest_tweet_by_map paircount scale_join wordcount wordcount_aggregate"

# A star stands before parameters that are given by name only.
PARAMETERS = {
    "setup": "operator * upstream parallelism max_parallelism inputs time sources watermark idle resolution engine "
    "seed clock",
    "sliding": "size advance kind",
    "tumbling": "size kind",
    "input": "schema keys",
    "Operator": "* window schema keys inputs state update output slide mapping groups keys_are_groups occurrences name",
    "Operator.on": "self frames * time source watermark idle resolution shards parallelism max_parallelism late state",
    "live": "query",
    "remaining": "query operator",
    "Aggregate": "* window keys key_name inputs mapping groups occurrences name aggregates",
    "Join": "* match window before after keys how inputs output schema self_join index mapping groups printed_purge "
    "name",
    "band": "left right within",
    "Map": "function * schema inputs name",
    "count": "column",
    "sum": "column",
    "min": "column",
    "max": "column",
    "mean": "column",
    "first": "column",
    "last": "column",
    "words": "column",
    "pairs": "column distance",
    "hashtags": "column",
    "elastic": "minimum maximum controller interval",
    "ThresholdController": "upper target lower cool_down step",
    "ModelController": "lower upper horizon drain patience step",
    "BalanceController": "controller limit cool_down",
    "ThresholdController.decide": "self load past",
    "Job.add": "self batch source * timeout",
    "Job.watermark": "self timestamp source",
    "Job.close": "self source",
    "Job.reconfigure": "self parallelism * instances mapping",
    "Job.results": "self wait",
    "Job.late": "self source",
    "Job.finish": "self",
    "Job.stop": "self",
    "Job.metrics": "self",
    "Metrics": (
        "tuples_in late results parallelism reconfigurations duplicates_avoided copies bytes_moved read_ns arrived "
        "watermark pending results_pending blocked_ns instances latency records mapping updates stored comparisons "
        "state_bytes dictionary_bytes"
    ),
}


def test_names():
    assert st.__all__ == sorted(st.__all__)
    assert st.__all__ == NAMES.split()
    assert all(hasattr(st, name) for name in st.__all__)


def test_operators_of_the_paper():
    own = [name for name, value in vars(st.paper).items() if getattr(value, "__module__", "") == st.paper.__name__]
    assert sorted(name for name in own if not name.startswith("_")) == PAPER.split()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    target = st
    for part in name.split("."):
        target = getattr(target, part)
    shown = []
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter.name)
    assert " ".join(shown) == PARAMETERS[name]


def test_everything_public_is_documented():
    undocumented = [name for name in st.__all__ if not inspect.getdoc(getattr(st, name))]
    methods = [name for name, value in vars(st.Job).items() if not name.startswith("_") and not inspect.getdoc(value)]
    assert (undocumented, methods) == ([], [])


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert st.__version__ == project["project"]["version"]
