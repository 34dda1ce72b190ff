"""`make bench`: prints each figure with its peer; exit 1 where a ratio misses its goal."""

from __future__ import annotations

import sys

from bench import asking, normalise, sidecar, writing


def main() -> int:
    good = [_normalise(frontend, body.read_text()) for frontend, body in normalise.BODIES.items()]
    measured = sidecar.measure(normalise.BODIES["vllm"])
    print("sidecar with one target:")
    print(f"  resident memory                   {measured.rss_mb:8.1f} MB  (goal: below {sidecar.MOST_MB:.0f})")
    print(f"  first scrape answered in          {measured.first_scrape_s:8.3f} s   (goal: within {sidecar.MOST_S:.0f})")
    good += [measured.good, *(_writing(name, result) for name, result in writing.measure())]
    good += [_asking(name, asked, result) for name, asked, result in asking.measure()]
    return 0 if all(good) else 1


def _normalise(frontend: str, text: str) -> bool:
    wrong, result = normalise.differing(text), normalise.measure(frontend, text)
    print(f"{frontend}: normalise, {len(text)} bytes, text to text, steady state (medians):")
    print(f"  inferwatch                        {result.ours_ms:8.3f} ms")
    print(f"  prometheus_client parse + write   {result.peer_ms:8.3f} ms")
    print(f"  ratio                             {result.ratio:8.1f} ×   (goal: at least {normalise.LEAST_RATIO:.0f})")
    print(f"  samples read differently          {len(wrong):8d}     (goal: 0)")
    return not wrong and result.ratio >= normalise.LEAST_RATIO


def _writing(database: str, result: writing.Result) -> bool:
    print(f"{database}: minutes of busy servers, encoded and upserted, {writing.ROWS} rows a transaction (medians):")
    print(f"  inferwatch                        {result.ours:8.0f} rows/s (aim: {writing.AIM_ROWS_PER_SECOND})")
    print(f"  SQLAlchemy Core, dictionaries     {result.peer:8.0f} rows/s")
    print(f"  ratio                             {result.ratio:8.2f} ×   (goal: at least {writing.LEAST_RATIO:g})")
    print(f"  size of a server's day            {result.megabytes:8.2f} MB  (aim: {writing.AIM_MB:g})")
    return result.good


def _asking(database: str, asked: asking.Asked, result: asking.Result) -> bool:
    print(f"{database}: P99 by framework, {asked.title}, from {asked.histograms} histograms (medians):")
    print(f"  inferwatch                        {result.ours_ms:8.1f} ms (aim: {asked.aim_ms:g})")
    print(f"  decoded and added one by one      {result.peer_ms:8.1f} ms")
    print(f"  ratio                             {result.ratio:8.1f} ×   (goal: at least {asking.LEAST_RATIO:g})")
    print(f"  points told differently           {result.differing:8d}     (goal: 0)")
    return result.good


if __name__ == "__main__":
    sys.exit(main())
