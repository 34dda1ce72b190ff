"""Terms of a frontend's table in words, with names as they stand on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporters.table import (
    Calc,
    Engines,
    Fold,
    Frontend,
    Json,
    Keep,
    Label,
    Number,
    Over,
    Pick,
    Prefer,
    Ratio,
    Read,
    Series,
    Term,
)
from inferwatch.reference.markdown import code, number

_READ = {Read.NUMBER: "", Read.NAMES: "number of names in ", Read.TEXT: ""}
_PICK = {Pick.ALL: "", Pick.NEWEST: " (of the newest series)", Pick.HOT: " (of the series that is 1)"}
_FOLDS = {
    Fold.ENGINE: "numbers the engines",
    Fold.FIRST: "repeats the same requests: the first counts",
    Fold.MAX: "one is live: the largest counts",
    Fold.SUM: "parts that add up",
    Fold.TOTAL: "the empty value is the sum of the others",
}
_OVER = {Over.LAST: "", Over.FIRST: " (the first)", Over.SUM: ", added up over all reads"}
_OPS = {"*": "×", "/": "÷", "-": "−"}


def wire_name(frontend: Frontend, name: str) -> str:
    if name.startswith("@"):
        return name[1:]
    prefix = frontend.prefixes[0] if frontend.prefixes else ""
    return f"{prefix}:{name}" if prefix else name


def describe(frontend: Frontend, term: Term, *, inner: bool = False) -> str:
    match term:
        case Series():
            return _series(frontend, term)
        case Label():
            name = wire_name(frontend, term.name)
            return f"{_READ[term.read]}label `{term.label}` of `{name}`{_translated(term.values)}{_PICK[term.pick]}"
        case Json():
            return _json(frontend, term)
        case Engines():
            return "number of engines"
        case Ratio():
            return f"increase of `{term.numerator}` ÷ increase of `{term.denominator}` over 5 minutes"
        case Number():
            return number(term.value)
        case Calc():
            return _calc(frontend, term, inner=inner)


def fold(label: str, how: Fold) -> str:
    return f"`{label}` {_FOLDS[how]}"


def condition(frontend: Frontend, needs: tuple[str, ...], lacks: tuple[str, ...]) -> str:
    """`where the page has x and lacks y`; empty without a condition."""
    versions = [c for c in needs if c.startswith("version")]
    names = [c for c in needs if c not in versions]
    said = [code(versions)] if versions else []
    said += [f"the page has {_names(frontend, names)}"] if names else []
    said += [f"the page lacks {_names(frontend, lacks)}"] if lacks else []
    return f"where {' and '.join(said)}" if said else ""


def _names(frontend: Frontend, conditions: Iterable[str]) -> str:
    return " and ".join(f"`{wire_name(frontend, c)}`" for c in conditions)


def _series(frontend: Frontend, series: Series) -> str:
    where = ",".join(f'{label}="{_wanted(values)}"' for label, values in series.where.items())
    text = f"`{wire_name(frontend, series.name)}{f'{{{where}}}' if where else ''}`"
    if series.scale != 1:
        text += f" × {number(series.scale)}"
    notes = [kept for label, keep in series.keep.items() if (kept := _kept(label, keep))]
    notes += [f'`{label}="{value}"`' for label, value in series.add.items()]
    notes += [f"{code(number(v) for v in series.invalid)} means not known"] if series.invalid else []
    notes += [fold(label, how) for label, how in series.fold.items()]
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _wanted(values: str | tuple[str, ...] | Prefer) -> str:
    if isinstance(values, Prefer):
        return " or else ".join(values.values)
    return values if isinstance(values, str) else "|".join(values)


def _kept(label: str, keep: Keep) -> str:
    """Empty where label and values stay as they are."""
    renamed = [f"`{label}` becomes `{keep.label}`"] if label != keep.label else []
    changed = [f"{wire} → {ours}" for wire, ours in keep.values.items() if wire != ours]
    other = [f"unknown values → {keep.other}"] if keep.other else []
    return ", ".join(renamed + changed + other)


def _translated(values: Mapping[str, str]) -> str:
    changed = [f"{wire} → {ours}" for wire, ours in values.items() if wire != ours]
    return f": {', '.join(changed)}" if changed else ""


def _json(frontend: Frontend, term: Json) -> str:
    path = f"{term.records}[].{term.path}" if term.records else term.path
    where = ", ".join(f"{key} = {value}" for key, value in term.where.items())
    text = f"`{path}` of `{frontend.document(term.document).path}`"
    text += f" where {where}" if where else ""
    text += f" × {number(term.scale)}" if term.scale != 1 else ""
    text += ", the same for each engine" if term.each_engine else ""
    return text + _OVER[term.over]


def _calc(frontend: Frontend, calc: Calc, *, inner: bool) -> str:
    sign = f" {_OPS.get(calc.op.value, calc.op.value)} "
    text = sign.join(describe(frontend, term, inner=True) for term in calc.terms)
    return f"({text})" if inner else text
