"""`make bench`: prints each figure with its peer; exit 1 where a ratio misses its goal."""

from __future__ import annotations

import sys

from bench import normalise, sidecar


def main() -> int:
    text = normalise.BODY.read_text()
    wrong = normalise.differing(text)
    result = normalise.measure(text)
    print(f"normalise, {len(text)} bytes, text to text, steady state (medians):")
    print(f"  inferwatch                        {result.ours_ms:8.3f} ms")
    print(f"  prometheus_client parse + write   {result.peer_ms:8.3f} ms")
    print(f"  ratio                             {result.ratio:8.1f} ×   (goal: at least {normalise.LEAST_RATIO:.0f})")
    print(f"  samples read differently          {len(wrong):8d}     (goal: 0)")
    measured = sidecar.measure(normalise.BODY)
    print("sidecar with one target:")
    print(f"  resident memory                   {measured.rss_mb:8.1f} MB  (goal: below {sidecar.MOST_MB:.0f})")
    print(f"  first scrape answered in          {measured.first_scrape_s:8.3f} s   (goal: within {sidecar.MOST_S:.0f})")
    good = not wrong and result.ratio >= normalise.LEAST_RATIO and measured.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
