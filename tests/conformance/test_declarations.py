"""Each way in which releases were seen to declare metrics, in wheels of a few lines."""

from __future__ import annotations

from pathlib import Path

import prometheus_client
import pytest

from conformance.declarations import Unresolved
from tests.conformance.wheels import declared, families, only

IMPORT = "from prometheus_client import Counter, Gauge, Histogram, Info, Summary\n"


def unresolved(found: tuple[Unresolved, ...]) -> list[tuple[str, str]]:
    return [(str(u.place), u.name) for u in found]


def test_names_types_labels_and_bounds_are_those_of_the_call(tmp_path: Path) -> None:
    source = f"""{IMPORT}
names = ["model_name", "engine"]
a = Gauge("p:running", "Running.", names)
b = Histogram(name="p:wait", documentation="Wait.", labelnames=names + ["reason"], buckets=(0.5, 1, 2.5))
c = Summary("p:size", "Size.")
"""
    found = {family.name: family for family in declared(tmp_path, {"p/a.py": source}).families}
    assert {name: (f.kind, f.labels, f.bounds) for name, f in found.items()} == {
        "p:running": ("gauge", ("model_name", "engine"), None),
        "p:wait": ("histogram", ("model_name", "engine", "reason"), (0.5, 1, 2.5)),
        "p:size": ("summary", (), None),
    }
    assert str(found["p:wait"].place) == "p/a.py:5"


def test_names_are_as_the_client_library_puts_them_on_the_wire(tmp_path: Path) -> None:
    calls = {"Counter": ("p:a", "p:b_total"), "Gauge": ("p:c", "p:d_total"), "Info": ("p:e", "p:f_info")}
    lines = [f"{kind}({name!r}, 'x')" for kind, names in calls.items() for name in names]
    registry = prometheus_client.CollectorRegistry()
    for kind, names in calls.items():
        for name in names:
            getattr(prometheus_client, kind)(name, "x", registry=registry)
    page = prometheus_client.generate_latest(registry).decode()
    on_the_wire = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    found = declared(tmp_path, {"p/a.py": IMPORT + "\n".join(lines)})
    assert set(families(found)) == {name for name in on_the_wire if not name.endswith("_created")}


CLASSES = {
    "imported": "from prometheus_client import Gauge\nGauge('p:x', '')",
    "imported under another name": "from prometheus_client import Gauge as G\nG('p:x', '')",
    "of the library": "import prometheus_client\nprometheus_client.Gauge('p:x', '')",
    "of the library under another name": "import prometheus_client as pc\npc.Gauge('p:x', '')",
    "imported where it is called": "def f():\n    from prometheus_client import Gauge\n    return Gauge('p:x', '')",
    "an attribute of the class": """
from prometheus_client import Gauge
class Logger:
    _gauge_cls = Gauge
    def __init__(self):
        self.x = self._gauge_cls(name='p:x', documentation='')
""",
    "an attribute that may be replaced": """
class Logger:
    _gauge_cls = None
    def __init__(self):
        from prometheus_client import Gauge as Own
        Gauge = self._gauge_cls or Own
        Gauge('p:x', '')
""",
    "its own subclass": "from prometheus_client import Gauge\nclass Own(Gauge):\n    pass\nOwn('p:x', '')",
    "one or the other": "from prometheus_client import Gauge\nG = Gauge if True else None\nG('p:x', '')",
    "with children at once": "from prometheus_client import Gauge\nx = Gauge('p:x', '', ['m']).labels('a')",
}


@pytest.mark.parametrize("source", CLASSES.values(), ids=CLASSES.keys())
def test_the_class_is_followed_to_the_client_library(source: str, tmp_path: Path) -> None:
    found = declared(tmp_path, {"p/a.py": source})
    assert (only(found).name, only(found).kind, found.unresolved) == ("p:x", "gauge", ())


def test_the_class_is_followed_to_a_base_class_in_another_file(tmp_path: Path) -> None:
    base = """
from prometheus_client import Gauge
class Base:
    def __init__(self, metric_types):
        self._gauge_cls = metric_types[Gauge]
"""
    own = """
from .base import Base
class Own(Base):
    def __init__(self, types):
        super().__init__(types)
        self._gauge_cls(name="p:x", documentation="")
"""
    found = declared(tmp_path, {"p/stats/base.py": base, "p/stats/own.py": own, "p/stats/__init__.py": ""})
    assert (only(found).kind, only(found).place.file) == ("gauge", "p/stats/own.py")


OTHERS = {
    "the standard library's": "from collections import Counter\nCounter('p:y')",
    "another library's": "from ray.util import metrics\nmetrics.Counter('p_y', '')",
    "its own": "class Counter:\n    def __init__(self, name): ...\nCounter('p_y')",
    "a replacement": """
class Wrapper: ...
class Logger:
    _gauge_cls = Wrapper
    def f(self):
        self._gauge_cls('p_y')
""",
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS.keys())
def test_classes_of_the_same_name_are_no_metrics(source: str, tmp_path: Path) -> None:
    own = "import prometheus_client\nprometheus_client.Gauge('p:x', '')\n"
    found = declared(tmp_path, {"p/a.py": f"import prometheus_client\n{source}".replace("p:y", "y"), "p/b.py": own})
    assert families(found) == {"p:x": "gauge"}
    assert found.unresolved == ()


NAMES = {
    "a constant": "NAME = 'p:x'\nGauge(NAME, '')",
    "a constant of the class": "class Names:\n    X = 'p:x'\nGauge(Names.X, '')",
    "a value of an enum": "import enum\nclass Names(enum.Enum):\n    X = 'p:x'\nGauge(Names.X.value, '')",
    "set on the object": "class A:\n    def f(self):\n        self.n = 'p:x'\n        Gauge(self.n, '')",
    "an f-string": "PREFIX = 'p:'\nGauge(f'{PREFIX}x', '')",
    "added up": "PREFIX = 'p:'\nGauge(PREFIX + 'x', '')",
    "set by a condition": "def f(t):\n    name, doc = None, ''\n    if t:\n        name = 'p:x'\n    Gauge(name, doc)",
}


@pytest.mark.parametrize("source", NAMES.values(), ids=NAMES.keys())
def test_the_name_is_followed_to_its_string(source: str, tmp_path: Path) -> None:
    found = declared(tmp_path, {"p/a.py": IMPORT + source})
    assert (only(found).name, found.unresolved) == ("p:x", ())


def test_the_name_is_followed_to_another_file(tmp_path: Path) -> None:
    files = {
        "p/names.py": "X = 'p:x'\nclass Names:\n    Y = 'p:y'\n",
        "p/a.py": f"{IMPORT}from p import names\nfrom p.names import X, Names\nGauge(X, '')\nGauge(Names.Y, '')\n",
    }
    assert families(declared(tmp_path, files)) == {"p:x": "gauge", "p:y": "gauge"}


LOOPS = {
    "a list": "for name in ['p:a', 'p:b']:\n    Counter(name, '')",
    "a list of pairs": "specs = [('p:a', f'{1}'), ('p:b', '')]\nall = [Counter(name, doc) for name, doc in specs]",
    "one of two lists": """
def f(other):
    if other:
        specs = [("p:a", "A")]
    else:
        specs = [("p:b", "B")]
    return {name: Counter(name=name, documentation=doc) for name, doc in specs}
""",
    "a dict": "NAMES = {'p:a': '', 'p:b': ''}\nfor name in NAMES:\n    Counter(name, '')",
    "the items of a dict": "NAMES = {'p:a': 1, 'p:b': 2}\nfor name, doc in NAMES.items():\n    Counter(name, doc)",
    "the values of a dict": "for name in {1: 'p:a', 2: 'p:b'}.values():\n    Counter(name, '')",
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS.keys())
def test_names_of_a_loop_are_all_declared(source: str, tmp_path: Path) -> None:
    found = declared(tmp_path, {"p/a.py": IMPORT + source})
    assert families(found) == {"p:a_total": "counter", "p:b_total": "counter"}
    assert found.unresolved == ()


HIDDEN = {
    "a parameter": ("def f(name):\n    Gauge(name, '')", "*"),
    "a part of it": ("def f(name):\n    Gauge(f'p:x_{name}_s', '')", "p:x_*_s"),
    "a call": ("Gauge(make(), '')", "*"),
    "one of a loop": ("for name in names():\n    Gauge(name, '')", "*"),
    "arguments in a dict": ("def f(given):\n    Gauge(**given)", "*"),
    "arguments in a list": ("def f(given):\n    Gauge(*given)", "*"),
    "a name space": ("\nGauge('x', '', namespace='p')", "x"),
    "of several types": ("\nkind = Gauge if size else Counter\nkind('p:x', '')", "p:x"),
    "of its own making": ("X = 'p:x'\nX += '_s'\nGauge(X, '')", "p:x"),
}


@pytest.mark.parametrize(("source", "name"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_the_source_does_not_show_is_told_and_not_guessed(source: str, name: str, tmp_path: Path) -> None:
    found = declared(tmp_path, {"p/a.py": f"{IMPORT}{source}", "p/b.py": f"{IMPORT}Gauge('p:known', '')"})
    assert [f.name for f in found.families if f.kind] == (["p:known", "p:x"] if "+=" in source else ["p:known"])
    place, told = unresolved(found.unresolved)[0]
    assert place.startswith("p/a.py:")
    assert told == ("*" if "+=" in source else name)


def test_a_list_that_goes_on_elsewhere_is_partly_known(tmp_path: Path) -> None:
    found = declared(tmp_path, {"p/a.py": f"{IMPORT}def f(x):\n    for name in ['p:a', x]:\n        Gauge(name, '')"})
    assert families(found) == {"p:a": "gauge"}
    assert unresolved(found.unresolved) == [("p/a.py:4", "*")]


def test_a_name_that_no_call_declares_has_no_type(tmp_path: Path) -> None:
    source = f"""{IMPORT}
class Names:
    LOADED = "p:loaded_bytes"
DEFINITIONS = {{Names.LOADED: Definition(kind="counter")}}
def create(name, definition):
    return Counter(name, definition.text)
Gauge("p:known_s", "See p:other_names in the text, and 'p:known_s'.")
read("p:known_s_total", "p:known")
"""
    found = declared(tmp_path, {"p/a.py": source})
    assert families(found) == {"p:known_s": "gauge", "p:loaded_bytes": None}
    assert unresolved(found.unresolved) == [("p/a.py:7", "*")]


def test_an_f_string_that_makes_up_names_is_told_where_no_call_shows_them(tmp_path: Path) -> None:
    source = f"""{IMPORT}def name(x):
    return f"p:{{x}}"
for x in ("a", "b"):
    Gauge(f"p:x_{{x}}", "")
log(f"p::{{x}}")
"""
    found = declared(tmp_path, {"p/a.py": source})
    assert families(found) == {"p:x_a": "gauge", "p:x_b": "gauge"}
    assert unresolved(found.unresolved) == [("p/a.py:3", "p:*")]


def test_tests_of_the_package_declare_nothing(tmp_path: Path) -> None:
    files = {f"p/{folder}/a.py": f"{IMPORT}Gauge('p:{folder}', '')" for folder in ("test", "tests", "testing")}
    assert families(declared(tmp_path, files)) == {"p:testing": "gauge"}


def test_a_file_that_cannot_be_parsed_is_told(tmp_path: Path) -> None:
    files = {"p/a.py": f"{IMPORT}Gauge('p:x', ''", "p/b.py": f"{IMPORT}Gauge('p:y', '')"}
    found = declared(tmp_path, files)
    assert families(found) == {"p:y": "gauge"}
    assert unresolved(found.unresolved) == [("p/a.py:0", "*")]
    assert "was never closed" in found.unresolved[0].why


def test_sources_that_refer_to_themselves_end(tmp_path: Path) -> None:
    files = {
        "p/a.py": f"{IMPORT}from p.b import X\nX = X + X\nclass A(A): ...\nGauge(X, '')\nA.y('')\nGauge('p:z', '')",
        "p/b.py": "from p.a import X\n",
    }
    assert families(declared(tmp_path, files)) == {"p:z": "gauge"}
