"""What a browser takes, as `Accept` and `Accept-Encoding` say it (RFC 9110, 12.5.1 and 12.5.3)."""

from __future__ import annotations


def accepts_gzip(accept_encoding: str) -> bool:
    """What is named rules over `*`, and a weight of 0 refuses."""
    weights = _weights(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def accepts_html(accept: str) -> bool:
    """Browsers name it; programs take whatever comes."""
    return _weights(accept).get("text/html", 0.0) > 0


def _weights(said: str) -> dict[str, float]:
    return dict(_weighed(part) for part in said.lower().split(","))


def _weighed(part: str) -> tuple[str, float]:
    """A weight that is none refuses: what is sent as it is can always be read."""
    name, *parameters = (each.strip() for each in part.split(";"))
    weight = next((each.partition("=")[2] for each in parameters if each.partition("=")[0].strip() == "q"), "1")
    try:
        return name, float(weight)
    except ValueError:
        return name, 0.0
