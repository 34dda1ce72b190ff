"""The simulated frameworks beside the reference estimates, in docs/simulated-fleet.md.

To write it anew: `python -m inferwatch.reference.fidelity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alerts.reference import AT_ONCE, FIRST_TOKEN_P99_SECONDS, TOKENS_PER_SECOND
from demo.fidelity import Figures, measured
from inferwatch.reference.markdown import table

PAGE = Path(__file__).parents[2] / "docs" / "simulated-fleet.md"
SEED, SECONDS, SHARED_TOKENS = 1, 90.0, 256
_BEGIN = "<!-- Written by `make generate`, up to the end: change the code, not this table. -->"
_END = "<!-- The end of what is generated. -->"


@dataclass(frozen=True, slots=True)
class Compared:
    """What came out of the simulation, beside what the reference says."""

    framework: str
    at_once: int
    simulated: Figures
    reference: Figures

    @property
    def errors(self) -> tuple[float, float]:
        """Relative to the reference: of tokens per second, of the P99 of the time to first token."""
        mine, theirs = self.simulated, self.reference
        return mine.tokens_per_second / theirs.tokens_per_second - 1, mine.p99 / theirs.p99 - 1


def compared(seed: int = SEED, seconds: float = SECONDS) -> list[Compared]:
    return [
        Compared(name, at_once, measured(name, at_once, seed, seconds=seconds), _reference(name, place))
        for place, at_once in enumerate(AT_ONCE)
        for name in TOKENS_PER_SECOND
    ]


def _reference(framework: str, place: int) -> Figures:
    return Figures(TOKENS_PER_SECOND[framework][place], FIRST_TOKEN_P99_SECONDS[framework][place])


def shared(seed: int = SEED, seconds: float = SECONDS) -> dict[str, Figures]:
    """At the largest number at once, if all prompts begin alike."""
    return {
        name: measured(name, AT_ONCE[-1], seed, seconds=seconds, shared_tokens=SHARED_TOKENS)
        for name in TOKENS_PER_SECOND
    }


def lead(figures: Mapping[str, Figures]) -> float:
    """Of SGLang over the best of the others, in tokens per second."""
    others = (each.tokens_per_second for name, each in figures.items() if name != "sglang")
    return figures["sglang"].tokens_per_second / max(others) - 1


def text(rows: Sequence[Compared], with_shared: Mapping[str, Figures]) -> str:
    alone = {row.framework: row.simulated for row in rows if row.at_once == AT_ONCE[-1]}
    return "\n\n".join([table(_HEADER, map(_row, rows)), table(_SHARED, _shared_rows(alone, with_shared))])


_HEADER = ("at once", "framework", "tokens/s: reference", "simulated", "error", "P99: reference", "simulated", "error")
_SHARED = (f"{AT_ONCE[-1]} at once", "prompts of their own", f"{SHARED_TOKENS} of 512 tokens shared", "gain")


def _row(row: Compared) -> Sequence[str]:
    mine, theirs = row.simulated, row.reference
    tokens, p99 = (f"{error:+.1%}" for error in row.errors)
    rates = f"{theirs.tokens_per_second:,.0f}", f"{mine.tokens_per_second:,.0f}", tokens
    return str(row.at_once), row.framework, *rates, f"{theirs.p99:.2f} s", f"{mine.p99:.2f} s", p99


def _shared_rows(alone: Mapping[str, Figures], shared: Mapping[str, Figures]) -> list[Sequence[str]]:
    rates = [(name, alone[name].tokens_per_second, shared[name].tokens_per_second) for name in alone]
    rows = [(f"{name}, tokens/s", f"{a:,.0f}", f"{b:,.0f}", f"{b / a - 1:+.1%}") for name, a, b in rates]
    return [*rows, ("SGLang's lead over the best other", f"{lead(alone):+.1%}", f"{lead(shared):+.1%}", "")]


def write(page: Path, generated: str) -> None:
    before, rest = page.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    page.write_text(f"{before}{_BEGIN}\n\n{generated}\n\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write(PAGE, text(compared(), shared()))
