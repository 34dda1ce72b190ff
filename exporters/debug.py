"""The pages under /debug: plain HTML. Everything that a server wrote is escaped; tokens are nowhere near."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

from exporters import exposition
from exporters.address import without_query
from exporters.collected import Collected, Debug
from exporters.findings import Finding
from exporters.gpu.gathered import Gathered
from exporters.gpu.observation import GpuObservation
from exporters.target import Target

_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:80rem}"
    "pre,td,code{font:12px/1.5 ui-monospace,monospace}pre{background:#f4f4f4;padding:1rem;overflow:auto}"
    "td,th{text-align:left;vertical-align:top;padding:.1rem 1.5rem .1rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}pre{background:#222}a{color:#8bf}}"
)


def index(paths: Mapping[str, str]) -> str:
    rows = [(_link(path.partition("?")[0], path), escape(text)) for path, text in paths.items()]
    return _html("inferwatch sidecar", _table((), rows))


def overview(targets: Iterable[Target], problems: Sequence[str]) -> str:
    rows = [
        (_link(f"/debug/{quote(t.server.name)}", t.server.name), escape(t.server.url), *_state(t.last)) for t in targets
    ]
    parts = [
        _table(("server", "URL", "up", "metrics", "findings"), rows) if rows else "<p>No server is configured.</p>"
    ]
    if problems:
        parts.append(_section("Configuration", _pre("\n".join(problems))))
    return _html("Servers", *parts)


def gpus(gathered: Gathered | None) -> str:
    if gathered is None:
        return _html("GPUs", "<p>No GPUs are read here: `gpus: {source: off}`.</p>")
    facts = [
        ("readable", _yes(gathered.available)),
        ("collected", f"{_time(gathered.at)}, took {gathered.duration:.3f} s"),
    ]
    rows = [
        (g.gpu, g.uuid, g.info.get("name", ""), _yes(g.up), ", ".join(g.servers), ", ".join(_reasons(g.findings)))
        for g in gathered.gpus
    ]
    heads = ("GPU", "uuid", "name", "answers", "servers", "findings")
    return _html(
        "GPUs",
        _table((), _escaped(facts)),
        _section("Findings", _findings(gathered.findings)),
        _section("GPUs", _table(heads, _escaped(rows)) or "<p>none</p>"),
        *(_section(f"GPU {g.gpu}: {g.uuid}", _gpu(g)) for g in gathered.gpus),
    )


def _gpu(gpu: GpuObservation) -> str:
    fields = [(f.field, f.source, f.quality, f.reason) for f in gpu.fields]
    lines = "".join(exposition.line(s.metric, s.labels, value) for s, value in gpu.values.items())
    return _findings(gpu.findings) + _table(("reading", "source", "quality", "reason"), _escaped(fields)) + _pre(lines)


def _reasons(findings: Iterable[Finding]) -> list[str]:
    return [f.reason for f in findings]


def page(target: Target) -> str:
    last = target.last
    if last is None:
        return _html(target.server.name, "<p>Not collected yet.</p>")
    seen, shown = last.observation, last.debug
    facts = [
        ("URL", without_query(shown.url or target.server.url)),
        ("frontend", shown.frontend or "not known"),
        ("process answers", _yes(seen.up)),
        ("engine metrics", _yes(seen.available)),
        ("collected", f"{_time(seen.at)}, took {seen.duration:.3f} s"),
        ("last failure", _failure(target)),
        ("labels", json.dumps(dict(target.server.labels), ensure_ascii=False)),
    ]
    fields = [(f.field, f.source, f.quality, f.reason) for f in seen.fields]
    return _html(
        target.server.name,
        _table((), _escaped(facts)),
        _section("Findings", _findings(seen.findings)),
        _section("Fields", _table(("field", "source", "quality", "reason"), _escaped(fields))),
        _section("Mapped families", _table(("on the page", "in the schema"), _escaped(shown.mapped.items()))),
        _section("Families not known", _pre("\n".join(shown.unmapped) or "none")),
        _section("Samples left out", _table(("sample", "why"), _escaped(shown.dropped)) or "<p>none</p>"),
        _section("Other documents, as far as they are used", _documents(shown)),
        _page_section(shown),
    )


def _documents(shown: Debug) -> str:
    said = {**shown.documents, **shown.document_problems}
    ages = [(name, f"{age:.0f} s before") for name, age in shown.document_ages.items()]
    return _table(("document", "read"), _escaped(ages)) + _pre(json.dumps(said, indent=2, default=str))


def _page_section(shown: Debug) -> str:
    if shown.body_at is None:
        return _section("The last page", "<p>none came yet</p>")
    title = f"The last page, as it came at {_time(shown.body_at)} ({shown.content_type or 'no type'})"
    return _section(title, _pre(shown.body))


def _failure(target: Target) -> str:
    if target.last_error is None:
        return "none since the start"
    at, finding = target.last_error
    return f"{_time(at)} {finding.reason} {finding.detail}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _state(last: Collected | None) -> tuple[str, str, str]:
    if last is None:
        return "not collected yet", "", ""
    seen = last.observation
    return _yes(seen.up), _yes(seen.available), escape(", ".join(_reasons(seen.findings)))


def _findings(findings: Sequence[Finding]) -> str:
    rows = [(f.severity.value, f.reason, f.message, f.detail, f.remedy) for f in findings]
    return _table(("severity", "reason", "what", "detail", "what to do"), _escaped(rows)) or "<p>none</p>"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _escaped(rows: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    return [tuple(escape(cell) for cell in row) for row in rows]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already. Nothing without rows."""
    if not rows:
        return ""
    head = f"<tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def _link(path: str, text: str) -> str:
    return f'<a href="{escape(path)}">{escape(text)}</a>'


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>{content}"


def _html(title: str, *parts: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)} – inferwatch</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{''.join(parts)}</html>\n"
    )
