"""`make bench`: prints each figure with its peer; exit 1 where a ratio misses its goal."""

from __future__ import annotations

import sys

from bench import normalise, sidecar


def main() -> int:
    good = [_normalise(frontend, body.read_text()) for frontend, body in normalise.BODIES.items()]
    measured = sidecar.measure(normalise.BODIES["vllm"])
    print("sidecar with one target:")
    print(f"  resident memory                   {measured.rss_mb:8.1f} MB  (goal: below {sidecar.MOST_MB:.0f})")
    print(f"  first scrape answered in          {measured.first_scrape_s:8.3f} s   (goal: within {sidecar.MOST_S:.0f})")
    return 0 if all(good) and measured.good else 1


def _normalise(frontend: str, text: str) -> bool:
    wrong, result = normalise.differing(text), normalise.measure(frontend, text)
    print(f"{frontend}: normalise, {len(text)} bytes, text to text, steady state (medians):")
    print(f"  inferwatch                        {result.ours_ms:8.3f} ms")
    print(f"  prometheus_client parse + write   {result.peer_ms:8.3f} ms")
    print(f"  ratio                             {result.ratio:8.1f} ×   (goal: at least {normalise.LEAST_RATIO:.0f})")
    print(f"  samples read differently          {len(wrong):8d}     (goal: 0)")
    return not wrong and result.ratio >= normalise.LEAST_RATIO


if __name__ == "__main__":
    sys.exit(main())
