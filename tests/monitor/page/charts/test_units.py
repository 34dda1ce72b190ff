from monitor.page.charts.units import BYTES, RATIO, SECONDS, Scale, counted

GIB = 2**30


def test_an_axis_is_scaled_by_its_largest_number() -> None:
    assert SECONDS.scale(0.05) == Scale(1e-3, "ms")
    assert SECONDS.scale(90) == Scale(1, "s")
    assert BYTES.scale(80 * GIB) == Scale(GIB, "GiB")
    assert RATIO.scale(0.4) == Scale(0.01, "%")
    assert counted("tokens/s").scale(80_000) == Scale(1, "tokens/s")
    assert counted("tokens/s").scale(120_000) == Scale(1e3, "k tokens/s")
    assert counted("tokens").scale(3e9) == Scale(1e9, "G tokens")


def test_an_axis_of_zeros_is_in_the_plain_unit() -> None:
    assert [unit.scale(0).title for unit in (SECONDS, BYTES, counted("W"))] == ["s", "B", "W"]


def test_numbers_are_said_as_on_the_page() -> None:
    assert SECONDS.said(0.25) == "250 ms"
    assert BYTES.said(1.5 * GIB) == "1.50 GiB"
    assert RATIO.said(0.934) == "93 %"
    assert counted("tokens/s").said(12_300) == "12.3 k tokens/s"


def test_a_bound_of_buckets_is_not_rounded() -> None:
    assert SECONDS.bound(7.68) == "7.68 s"
