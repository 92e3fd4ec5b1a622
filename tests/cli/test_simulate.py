"""`stretch simulate`: what it prints and writes."""

import json

import pytest

from stretch.cli import main
from stretch.controllers import Costs, Moment, Trace

COSTS = Costs(tuple_ns=3_500_000, update_ns=0.0)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    Trace((Moment(0.0, (500.0,), COSTS), Moment(20.0, (2000.0,), COSTS)), 40.0).write(path)
    return str(path)


def test_it_shows_phases_of_each_controller(trace, capsys):
    assert main(["simulate", trace]) == 0
    shown = capsys.readouterr().out
    assert "threshold: " in shown
    assert "model: " in shown
    assert "from   tuples/s" in shown
    assert "20 s   2,000" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_it_writes_decisions_and_a_plot(trace, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    written, drawn = tmp_path / "out.json", tmp_path / "out.svg"
    options = ["--controller", "model", "--maximum", "16", "--set", "upper=0.85", "--interval", "500 ms"]
    assert main(["simulate", trace, *options, "--json", str(written), "--plot", str(drawn)]) == 0
    (name, content), *rest = json.loads(written.read_text()).items()
    assert (name, rest) == ("model", [])
    assert len(content["intervals"]) == 80
    assert all("instances" in change["reason"] for change in content["changes"])
    assert content["changes"][-1]["after"] == content["phases"][-1]["instances"][1] in (9, 10)  # 7 busy
    assert "<svg" in drawn.read_text()
    assert "model: " in capsys.readouterr().out


def test_a_trace_that_does_not_exist(capsys):
    assert main(["simulate", "nowhere.json"]) == 1
    assert "stretch simulate: nowhere.json is not a trace" in capsys.readouterr().err
