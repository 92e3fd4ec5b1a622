"""Reports as one page of HTML that needs nothing from outside: figures, tables, goals, and every repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from stretch.bench import svg
from stretch.bench.report import Figure, Plot, Report, Table


@dataclass(frozen=True)
class Section:
    """One bench of a page: its report, what it is about, and how to run it alone."""

    report: Report
    title: str
    about: str
    command: str


_STYLE = """
:root { --text: #1c2430; --soft: #5b6675; --ground: #fff; --line: #e3e7ec; --good: #00795a; --bad: #b3400a;
  --curve-0: #0072b2; --curve-1: #d55e00; --curve-2: #009e73; --curve-3: #cc79a7;
  --curve-4: #b58900; --curve-5: #56b4e9; --curve-6: #7a5195; --curve-7: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ee; --soft: #9aa5b4; --ground: #14181e; --line: #2b323c; --good: #3ecf9e; --bad: #ff9561; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1060px; padding: 2.5rem 1.5rem 5rem; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.9rem; margin: 0 0 .25rem; } h2 { font-size: 1.35rem; margin: 3.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .4rem; font-weight: 600; }
p { max-width: 44rem; } .soft, figcaption { color: var(--soft); font-size: .88rem; }
nav { margin: 1rem 0; } nav a { margin-right: 1.2rem; } a { color: var(--curve-0); text-decoration: none; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 2rem; }
figure { margin: 1rem 0 0; } svg { width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } .grid { stroke: var(--line); }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .band { opacity: .16; }
.dot { fill: var(--curve-0); opacity: .35; } .median { stroke: var(--curve-1); stroke-width: 2.5; }
.legend span { display: inline-block; margin-right: 1rem; font-size: .85rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .35rem;
  vertical-align: -1px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.holds { color: var(--good); } .missed { color: var(--bad); font-weight: 600; }
code { font: .86rem ui-monospace, monospace; } details { margin: 1rem 0; } summary { cursor: pointer; }
.note { border-left: 3px solid var(--curve-4); padding: .1rem 0 .1rem .9rem; margin: .8rem 0; }
"""
_COLOURS = "".join(
    f".fill-{n} {{ fill: var(--curve-{n}); }} .line-{n} {{ stroke: var(--curve-{n}); }} "
    f".legend .line-{n} {{ background: var(--curve-{n}); }} "
    for n in range(svg.COLOURS)
)


def page(title: str, about: str, machine: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """Return the page."""
    links = "".join(f'<a href="#{part.report.bench}">{escape(part.title)}</a>' for part in sections)
    body = "".join(map(_section, sections))
    facts = _table(Table("", [], [[name, str(value)] for name, value in machine.items() if value is not None]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{_COLOURS}</style></head><body>"
        f"<h1>{escape(title)}</h1>{_paragraphs(about)}<nav>{links}</nav>"
        f"<h2>Goals</h2>{_goals(sections)}<h2>Machine and versions</h2>{facts}{body}</body></html>\n"
    )


def _section(part: Section) -> str:
    report = part.report
    drawn = [_figure(plot.title, _legend(plot), svg.curves(plot)) for plot in report.plots]
    drawn += [_figure(chart.title, "", svg.dots(chart)) for chart in report.charts]
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    return (
        f'<section id="{escape(report.bench)}"><h2>{escape(part.title)}</h2>{_paragraphs(part.about)}'
        f'<p class="soft"><code>{escape(part.command)}</code></p>{notes}<div class="figures">{"".join(drawn)}</div>'
        f"{''.join(map(_table, report.tables))}<h3>Figures</h3>{_figures(report.figures)}{_runs(report.runs)}</section>"
    )


def _figure(title: str, legend: str, image: str) -> str:
    return f"<figure><h3>{escape(title)}</h3>{legend}{image}</figure>"


def _legend(plot: Plot) -> str:
    names = [
        f'<span><i class="line-{number % svg.COLOURS}"></i>{escape(name)}</span>'
        for number, name in enumerate(plot.curves)
    ]
    return f'<div class="legend">{"".join(names)}</div>'


def _goals(sections: Sequence[Section]) -> str:
    every = [(part, figure) for part in sections for figure in part.report.figures if figure.goal is not None]
    if not every:
        return "<p>None was measured.</p>"
    held = sum(bool(figure.holds) for _, figure in every)
    rows = "".join(f"<tr><td>{escape(part.report.bench)}</td>{_cells(figure)}</tr>" for part, figure in every)
    return f'<p>{held} of {len(every)} hold.</p><div class="wide"><table>{rows}</table></div>'


def _figures(figures: Sequence[Figure]) -> str:
    rows = "".join(f"<tr>{_cells(figure)}</tr>" for figure in figures)
    return f'<div class="wide"><table>{rows}</table></div>'


def _cells(figure: Figure) -> str:
    verdict = "" if figure.holds is None else "holds" if figure.holds else "missed"
    return (
        f'<td>{escape(figure.name)}</td><td class="number">{figure.value:,.10g} {escape(figure.unit)}</td>'
        f'<td class="number soft">{escape(figure.goal or "")}</td><td class="{verdict}">{verdict}</td>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in table.header)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return f'{title}<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td class="number">{value:,.10g}</td>'
    return f"<td>{escape(str(value))}</td>"


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    """Every repetition, folded away."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    if not runs:
        return ""
    rows: list[list[Any]] = [["" if run.get(name) is None else run[name] for name in names] for run in runs]
    shown = _table(Table("", names, rows))
    return f"<details><summary>All {len(runs):,} repetitions</summary>{shown}</details>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(' '.join(part.split()))}</p>" for part in text.strip().split("\n\n"))
