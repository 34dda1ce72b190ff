"""Terms of a frontend's table in words, with names as they stand on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    Where,
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
_OVER = {
    Over.LAST: "",
    Over.FIRST: " (the first)",
    Over.SUM: ", added up over all reads",
    Over.PARTS: ", added up",
    Over.HELD: ", kept while there is no record",
    Over.RISE: ", followed over its restarts",
}
_COMPARED = re.compile(r"(\w+)(>=|<)([\d.]+)")
_OPS = {"*": "×", "/": "÷", "-": "−"}


def wire_name(frontend: Frontend, name: str) -> str:
    if name.startswith("@"):
        return name[1:]
    prefix = frontend.prefixes[0] if frontend.prefixes else ""
    separator = ":" if prefix and not prefix.endswith("_") else ""
    return f"{prefix}{separator}{name}"


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
    """`where there is x and there is no y`; empty without a condition."""
    said = [_holds(frontend, c) for c in needs] + [_holds(frontend, c, there="there is no") for c in lacks]
    return f"where {' and '.join(said)}" if said else ""


def _holds(frontend: Frontend, one: str, there: str = "there is") -> str:
    if _COMPARED.fullmatch(one):
        return f"`{one}`" if there == "there is" else f"not `{one}`"
    kind, _, document = one.partition("json:")
    if not kind and document:
        return f"{there} an answer at `{frontend.document(document).path}`"
    return f"{there} `{wire_name(frontend, one)}`"


def _series(frontend: Frontend, series: Series) -> str:
    text = _selected(frontend, series.name, series.where)
    if series.scale != 1:
        text += f" × {number(series.scale)}"
    notes = [kept for label, keep in series.keep.items() if (kept := _kept(label, keep))]
    notes += [f'`{label}="{value}"`' for label, value in series.add.items()]
    notes += [f"{code(number(v) for v in series.invalid)} means not known"] if series.invalid else []
    notes += [f"0 before its first use, {condition(frontend, series.zero, ())}"] if series.zero else []
    notes += [fold(label, how) for label, how in series.fold.items()]
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _selected(frontend: Frontend, name: str, where: Where) -> str:
    labels = ",".join(f'{label}="{_wanted(values)}"' for label, values in where.items())
    return f"`{wire_name(frontend, name)}{f'{{{labels}}}' if labels else ''}`"


def _wanted(values: object) -> str:
    match values:
        case Prefer():
            return " or else ".join(_wanted(value) for value in values.values)
        case tuple():
            return "|".join(map(str, values))
        case _:
            return str(values)


def _kept(label: str, keep: Keep) -> str:
    """Empty where label and values stay as they are."""
    renamed = [f"`{label}` becomes `{keep.label}`"] if label != keep.label else []
    changed = [f"{wire} → {ours}" for wire, ours in keep.values.items() if wire != ours]
    other = [f"unknown values → {keep.other}"] if keep.other else []
    return ", ".join(renamed + changed + other)


def _translated(values: Mapping[str, str]) -> str:
    """What is not listed is not known, so values that stay as they are stand too."""
    shown = [wire if wire == ours else f"{wire} → {ours}" for wire, ours in values.items()]
    return f": {', '.join(shown)}" if shown else ""


def _json(frontend: Frontend, term: Json) -> str:
    path = ".".join(filter(None, (f"{term.records}[]" if term.records else "", term.path)))
    where = ", ".join(f"{key} = {_wanted(value)}" for key, value in term.where.items())
    at = f"`{frontend.document(term.document).path}`"
    text = f"`{path}` of {at}" if path else at
    text += f" where {where}" if where else ""
    text += f" × {number(term.scale)}" if term.scale != 1 else ""
    text += ", the same for each engine" if term.each_engine else ""
    text += f", {number(term.idle)} while there is no record" if term.idle is not None else ""
    text += "".join(f', `{label}="{value}"`' for label, value in term.add.items())
    return text + _OVER[term.over]


def _calc(frontend: Frontend, calc: Calc, *, inner: bool) -> str:
    sign = f" {_OPS.get(calc.op.value, calc.op.value)} "
    text = sign.join(describe(frontend, term, inner=True) for term in calc.terms)
    return f"({text})" if inner else text
