"""`make bench`: prints each figure with its peer; exit 1 where a ratio misses its goal."""

from __future__ import annotations

import sys

from bench import asking, judging, normalise, sidecar, writing


def main() -> int:
    good = [_normalise(frontend, body.read_text()) for frontend, body in normalise.BODIES.items()]
    measured = sidecar.measure(normalise.BODIES["vllm"])
    print("sidecar with one target:")
    print(f"  resident memory                   {measured.rss_mb:8.1f} MB  (goal: below {sidecar.MOST_MB:.0f})")
    print(f"  first scrape answered in          {measured.first_scrape_s:8.3f} s   (goal: within {sidecar.MOST_S:.0f})")
    good += [measured.good, *(_writing(name, result) for name, result in writing.measure())]
    good += [_asking(name, asked, result) for name, asked, result in asking.measure()]
    good.append(_judging(judging.measure()))
    _embedded(judging.measure_embedded())
    return 0 if all(good) else 1


def _normalise(frontend: str, text: str) -> bool:
    wrong, result = normalise.differing(text), normalise.measure(frontend, text)
    print(f"{frontend}: normalise, {len(text)} bytes, text to text, steady state (medians):")
    print(f"  inferwatch                        {result.ours * 1e3:8.3f} ms")
    print(f"  prometheus_client parse + write   {result.peer * 1e3:8.3f} ms")
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


def _judging(result: judging.Result) -> bool:
    slos, most = len(judging.SLOS), judging.MOST_SECONDS
    print(f"Prometheus: rules of {slos} objectives over {judging.SERVERS} servers, each by itself (quickest):")
    print(f"  every minute                      {result.each_minute * 1e3:8.1f} ms")
    print(
        f"  every five minutes                {result.each_five_minutes * 1e3:8.1f} ms (goal: below {most:g} s with it)"
    )
    print(f"  those of conditions, each minute  {result.conditions * 1e3:8.1f} ms")
    print(f"  groups of each minute, as it ran  {result.as_groups * 1e3:8.1f} ms")
    print(f"  peer: ratios of rates, to an hour {result.peer_hour * 1e3:8.1f} ms, each minute")
    print(f"  those of its longer windows       {result.peer_beyond * 1e3:8.1f} ms, each five minutes")
    print(f"  ratio                             {result.ratio:8.1f} ×   (goal: at least {judging.LEAST_RATIO:g})")
    print(f"  without its longer windows        {result.ratio_of_an_hour:8.2f} ×")
    return result.good


def _embedded(result: judging.Embedded) -> None:
    print("the same objectives and all conditions judged from the history (CPU), 64 servers:")
    print(f"  at the start                      {result.first:8.2f} s")
    print(f"  every minute                      {result.then:8.2f} s   (aim: {judging.MOST_SECONDS:g})")


if __name__ == "__main__":
    sys.exit(main())
