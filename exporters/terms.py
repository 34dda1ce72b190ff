"""All that a frontend's table reads, and by what of it the frontend is recognised."""

from __future__ import annotations

from collections.abc import Iterator

from exporters.table import Calc, Frontend, Label, Series, Term


def terms(frontend: Frontend) -> Iterator[Term]:
    """Every term that the table uses, those inside calculations included."""
    if frontend.owner:
        yield frontend.owner[0]
    for alternatives in frontend.facts.values():
        for term in alternatives:
            yield from walk(term)
    for entry in frontend.fields:
        for source in entry.sources:
            for part in source.parts:
                yield from walk(part)


def marks(frontend: Frontend) -> frozenset[str]:
    """Conditions of which one is enough to recognise the page.

    Those listed, or all names that the table reads below its prefix, and the documents that are read destructively:
    only an engine's statistics are.
    """
    if frontend.marks:
        return frozenset(frontend.marks)
    names = {t.name for t in terms(frontend) if isinstance(t, Series | Label) and not t.name.startswith("@")}
    return frozenset(names | {f"json:{d.name}" for d in frontend.documents if d.destructive})


def walk(term: Term) -> Iterator[Term]:
    """The term and, for a calculation, all terms inside it."""
    yield term
    if isinstance(term, Calc):
        for inner in term.terms:
            yield from walk(inner)
