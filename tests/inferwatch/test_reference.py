from __future__ import annotations

import pytest

from exporters import schema
from exporters.findings import GPU_KINDS, KINDS
from exporters.rhythm import Refresh, Rhythm, TokenTiming
from exporters.table import (
    Calc,
    Document,
    Engines,
    Field,
    Fold,
    Form,
    Frontend,
    Json,
    Keep,
    Label,
    Number,
    Over,
    Pick,
    Prefer,
    Quality,
    Ratio,
    Read,
    Reason,
    Series,
    Source,
    Term,
    Trap,
)
from inferwatch.reference.findings import findings_page
from inferwatch.reference.frontend import definitions_page, frontend_page
from inferwatch.reference.markdown import table
from inferwatch.reference.schema import schema_page
from inferwatch.reference.terms import describe

RUNNING, TTFT = "llm_requests_running", "llm_time_to_first_token_seconds"


def frontend(*fields: Field, name: str = "made_up", **more: object) -> Frontend:
    settings: dict[str, object] = {
        "framework": "vllm",
        "prefixes": ("mk",),
        "documents": (
            Document("metrics", "/metrics"),
            Document("models", "/v1/models", Form.JSON),
            Document("stats", "/stats", Form.JSON, every=30.0, destructive=True),
        ),
        "folds": {},
        "model_label": "model",
        "facts": {},
        "ignore": (),
    }
    return Frontend(name=name, fields=fields, **(settings | more))  # type: ignore[arg-type]


def sections(page: str, level: str = "### ") -> dict[str, str]:
    parts = page.split(f"\n{level}")[1:]
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


def test_every_metric_has_its_heading_with_its_meaning() -> None:
    found = sections(schema_page())
    for metric in schema.METRICS.values():
        assert metric.help in found[metric.name]


def test_a_metric_tells_type_unit_scope_labels_and_aliases() -> None:
    found = sections(schema_page())
    assert (
        "*counter · requests · per engine* Labels: `reason` (stop, length, abort, error, unknown)."
        in found["llm_requests_finished_total"]
    )
    assert "OpenTelemetry: `gen_ai.server.time_to_first_token`." in found[TTFT]
    assert "*gauge · per target*" in found["llm_up"]


def test_every_phase_shows_all_bounds_of_its_grid() -> None:
    rows = {line.split("|")[1].strip(): line for line in schema_page().splitlines() if line.startswith("| `")}
    for phase in schema.PHASES.values():
        bounds = rows[f"`{phase.name}`"].split("|")[-2].split()
        assert tuple(float(bound) for bound in bounds[:-1]) == phase.grid


def test_every_finding_has_a_row_with_its_remedy() -> None:
    page = findings_page()
    for reason, kind in (KINDS | GPU_KINDS).items():
        assert f"| `{reason}` | {kind.severity.value} |" in page
        assert kind.remedy in page


def test_a_cell_never_breaks_its_row() -> None:
    assert table(("a", "b"), [("x | y", "two\nlines")]).splitlines()[-1] == "| x \\| y | two lines |"


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (Series("running"), "`mk:running`"),
        (Series("@process_start_time_seconds"), "`process_start_time_seconds`"),
        (Series("latency_ms", scale=0.001), "`mk:latency_ms` × 0.001"),
        (Series("rate", invalid=(-1.0,)), "`mk:rate` (`-1` means not known)"),
        (Series("blocks", {"kind": "used"}), '`mk:blocks{kind="used"}`'),
        (Series("blocks", {"kind": ("used", "held")}), '`mk:blocks{kind="used|held"}`'),
        (Series("ok", {"model": Prefer("ensemble", "bls")}), '`mk:ok{model="ensemble or else bls"}`'),
        (Series("ok", {"model": Prefer(("a", "b"), "c")}), '`mk:ok{model="a|b or else c"}`'),
        (
            Series("done", zero=("json:models", "dp<2")),
            "`mk:done` (0 before its first use, where there is an answer at `/v1/models` and `dp<2`)",
        ),
        (Json("models", "", records="data", over=Over.HELD), "`data[]` of `/v1/models`, kept while there is no record"),
        (
            Json("stats", "id", records="data", where={"id": Prefer(("a", "b"), "c"), "parent": None}),
            "`data[].id` of `/stats` where id = a|b or else c, parent = None",
        ),
        (Json("stats", "", over=Over.RISE), "`/stats`, followed over its restarts"),
        (
            Json("stats", "queue", idle=0.0, add={"reason": "error"}),
            '`queue` of `/stats`, 0 while there is no record, `reason="error"`',
        ),
        (Series("bad", add={"reason": "error"}), '`mk:bad` (`reason="error"`)'),
        (
            Series("done", keep={"why": Keep("reason", {"stop": "stop", "cancel": "abort"}, other="unknown")}),
            "`mk:done` (`why` becomes `reason`, cancel → abort, unknown values → unknown)",
        ),
        (Series("done", keep={"reason": Keep("reason")}), "`mk:done`"),
        (Series("kv", fold={"pid": Fold.MAX}), "`mk:kv` (`pid` one is live: the largest counts)"),
        (Label("config", "blocks"), "label `blocks` of `mk:config`"),
        (
            Label("lora", "names", Read.NAMES, Pick.NEWEST),
            "number of names in label `names` of `mk:lora` (of the newest series)",
        ),
        (
            Label("state", "state", Read.TEXT, Pick.HOT, {"awake": "awake", "off": "sleeping"}),
            "label `state` of `mk:state`: awake, off → sleeping (of the series that is 1)",
        ),
        (
            Json("stats", "kv.used", records="pools", where={"kind": "full"}),
            "`pools[].kv.used` of `/stats` where kind = full",
        ),
        (Json("models", "id", records="data", over=Over.FIRST), "`data[].id` of `/v1/models` (the first)"),
        (Json("stats", "limit", each_engine=True), "`limit` of `/stats`, the same for each engine"),
        (
            Ratio("llm_hits_total", "llm_queries_total"),
            "increase of `llm_hits_total` ÷ increase of `llm_queries_total` over 5 minutes",
        ),
        (Json("stats", "tokens", over=Over.SUM, scale=2.0), "`tokens` of `/stats` × 2, added up over all reads"),
        (
            Calc("/", Calc("*", Label("config", "blocks"), Number(16)), Engines()),
            "(label `blocks` of `mk:config` × 16) ÷ number of engines",
        ),
    ],
)  # fmt: skip
def test_a_term_is_said_in_words(term: Term, said: str) -> None:
    assert describe(frontend(), term) == said


def test_sources_stand_in_order_with_condition_quality_and_note() -> None:
    field = Field(
        RUNNING,
        Source(Series("running")),
        Source(
            Series("active"), quality=Quality.APPROXIMATE, needs=("config{engine}", "version>=1.2"), lacks=("running",),
            note="Counts the queue too.",
        ),
        missing=(Reason("switch it on with `--stats`", lacks=("config",)), Reason("too old")),
        definition="Requests in the batch.",
    )  # fmt: skip
    assert sections(frontend_page(frontend(field)))[RUNNING].strip().splitlines()[:7] == [
        "Requests in the batch.",
        "",
        "1. `mk:running`: *exact*",
        "2. `mk:active`, where there is `mk:config{engine}` and `version>=1.2` and there is no `mk:running`: "
        "*approximate*; Counts the queue too.",
        "",
        "- Missing where there is no `mk:config`: switch it on with `--stats`.",
        "- Missing: too old.",
    ]


def test_a_source_that_is_refreshed_now_and_then_is_approximate_and_leads_to_its_rhythm() -> None:
    field = Field(
        RUNNING, Source(Series("running"), quality=Quality.DERIVED, note="a count"), Source(Json("stats", "n"))
    )
    page = frontend_page(frontend(field, rhythm=Rhythm(gauges=(Refresh((RUNNING,), seconds=5.0),))))
    first, second = sections(page)[RUNNING].strip().splitlines()[:2]
    assert first == "1. `mk:running`: *approximate*; a count; refreshed by its [rhythm](#rhythm)"
    assert second == "2. `n` of `/stats`: *exact*"


def test_what_a_frontend_never_tells_is_listed_without_what_inferwatch_computes_itself() -> None:
    fields = Field(RUNNING, Source(Series("running"))), Field("llm_preemptions_total", missing="counts none")
    never = sections(frontend_page(frontend(*fields)), "## ")["What this frontend never tells"].splitlines()
    assert "- `llm_preemptions_total`: counts none." in never
    assert "- `llm_generation_tokens_total`" in never
    assert f"- `{RUNNING}`" not in never
    assert not any("quantile" in line or "server_info" in line for line in never)


def test_the_rest_of_a_table_is_told() -> None:
    page = frontend_page(
        frontend(
            folds={"rank": Fold.ENGINE},
            facts={"version": (Json("stats", "version"), Label("config", "version"))},
            ignore=("debug_*", "@python_*"),
            rhythm=Rhythm(
                TokenTiming.FINISH,
                gauges=(Refresh((RUNNING,), seconds=5.0, needs=("config",)), Refresh((RUNNING,), "x")),
            ),
            traps=(Trap("Aborts vanish", "told as `llm_requests_unfinished`"),),
            releases="1.0 to 2.0",
        )
    )
    found = sections(page, "## ")
    assert "Framework `vllm`. Releases: 1.0 to 2.0." in page
    assert "| `stats` | `/stats` | json, read destructively | every 30 s | no |" in found["What is read"]
    assert "`version`: `version` of `/stats`, else label `version` of `mk:config`" in found["Facts about the server"]
    assert "- `rank` numbers the engines" in found["Labels that split a series"]
    assert "only when a request finishes" in found["Rhythm"]
    assert f"- `{RUNNING}`, where there is `mk:config`: refreshed every 5 s." in found["Rhythm"]
    assert f"- `{RUNNING}`: refreshed x." in found["Rhythm"]
    assert "| Aborts vanish | told as `llm_requests_unfinished` |" in found["Traps, and what is done about them"]
    assert "`mk:debug_*`, `python_*`" in found["Known families without a place in the schema"]


def test_definitions_stand_side_by_side() -> None:
    page = definitions_page(
        {
            "a": frontend(Field(TTFT, Source(Series("ttft")), definition="queue included")),
            "b": frontend(Field(TTFT, Source(Series("ttft"))), Field(RUNNING, Source(Series("running")))),
            "c": frontend(Field(TTFT, missing="no such thing")),
            "d": frontend(),
        }
    )
    assert "| metric | `a` | `b` | `c` | `d` |" in page
    assert f"| `{TTFT}` | queue included | as the schema says | not measured | not measured |" in page
    assert RUNNING not in page
