"""The page of the evaluation: whole, made of what was measured, and in need of nothing from outside."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from stretch.bench import svg
from stretch.bench.evaluation import EXPERIMENTS, PAGE, write_page
from stretch.bench.page import Section, page
from stretch.bench.report import Chart, Plot, Report, Table

ALONE = {"meta", "br", "circle", "line", "polyline", "polygon"}


class Balance(HTMLParser):
    """Checks that all elements are closed, and collects text and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ALONE:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag):
        if tag not in ALONE:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    return balance


@pytest.fixture
def report():
    report = Report("q1")
    report.add("ratio <to> Flink", 8.5, "x", at_least=7)
    report.add("latency", 30, "ms", at_most=20)
    report.add_run("ours", repetition=1, seconds=0.25)
    report.plots.append(Plot("Throughput", "parallelism", "tweets/s", {"VSN": {1: [10.0, 12.0], 2: [20.0]}}))
    report.plots.append(Plot("Latency", "parallelism", "ms", {"VSN": {1: [0.5]}, "SN": {}}, True, True))
    report.charts.append(Chart("Runs", "s", {"a & b": [1.0, 2.0]}))
    report.tables.append(Table("Steps", ["from", "to"], [[1, "2"]]))
    report.notes.append("Flink is left out.")
    return report


def test_reports_survive_json(report):
    again = Report.from_json(report.to_json())
    assert again.figures == report.figures
    assert (again.runs, again.charts, again.tables, again.notes) == (
        report.runs,
        report.charts,
        report.tables,
        report.notes,
    )
    assert again.plots[0].curves == {"VSN": {1.0: [10.0, 12.0], 2.0: [20.0]}}


def test_the_page_shows_it_all(report):
    html = page(
        "Title", "About\n\nmore", {"cores": 2}, [Section(report, "Q1: words", "What it is.", "stretch bench q1")]
    )
    found = read(html)
    shown = " ".join(found.text)
    for text in ("ratio <to> Flink", "holds", "missed", "1 of 2 hold.", "Flink is left out.", "Throughput", "a & b"):
        assert text in shown
    assert "stretch bench q1" in shown
    assert found.links == ["#q1"]  # nothing is fetched
    assert "http" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_the_page_of_a_folder(report, tmp_path):
    (tmp_path / "q1.json").write_text(report.to_json(), encoding="utf-8")
    write_page(tmp_path, ["q2"], quick=True)
    shown = " ".join(read((tmp_path / PAGE).read_text(encoding="utf-8")).text)
    assert "Q1: word and pair count" in shown
    assert "stretch bench q1 --quick" in shown
    assert "This experiment failed" in shown


def test_every_experiment_has_its_place():
    assert EXPERIMENTS[0] == "fit"
    assert {"q1", "q2", "q3", "q6"} <= set(EXPERIMENTS)


def test_curves_lie_where_their_values_are():
    plot = Plot("p", "x", "y", {"one": {0.0: [0.0], 10.0: [100.0]}})
    root = ElementTree.fromstring(svg.curves(plot))
    (curve,) = (part for part in root.iter() if part.get("class") == "curve line-0")
    (x, y), (other_x, other_y) = (map(float, point.split(",")) for point in curve.get("points").split())
    assert x < other_x
    assert y > other_y  # up is less


@pytest.mark.parametrize("values", [[0.0], [1.0], [3.0, 3.0], [1e-7, 4e9], [-5.0, 5.0]])
@pytest.mark.parametrize("is_logarithmic", [False, True])
def test_scales_take_any_values(values, is_logarithmic):
    scale = svg.scale_of(values, 100, 0, is_logarithmic)
    assert all(0 <= scale(value) <= 100 for value in values)
    assert 2 <= len(scale.ticks()) <= 40


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (1_500, "1.5 k"), (2e6, "2 M"), (2.1e10, "21 G")]
)
def test_numbers_are_short(value, text):
    assert svg.short(value) == text
