"""Chance that depends on nothing but a seed and what it is for: the same whatever else happens, and in any order."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def uniform(seed: int, number: int, purpose: int = 0) -> float:
    """At least 0, below 1. Mixed as in splitmix64."""
    mixed = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15 + purpose * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)
