"""The page of results, and the README's table, are those of `benchmarks/results.md`."""

from benchmarks import page

RESULTS = """# Benchmark of 2026-11-22

A CPU, 2 cores. 3 interleaved rounds.

## Requests per second

| case                | ie_serving |   Triton |
| ------------------- | ---------: | -------: |
| dummy_b1, gRPC c1   |  1,005 ±1% | 132 ±22% |
| dummy_b1, gRPC c16  |  2,005 ±1% | 332 ±22% |
| dummy_b1, REST c16  |  3,005 ±1% |          |

## Ratio of ie_serving to each

| case                |           Triton |
| ------------------- | ---------------: |
| dummy_b1, gRPC c1   | 5.16 (4.09-7.09) |

## p50 / p99, ms

| case                | ie_serving |   Triton |
| ------------------- | ---------: | -------: |
| dummy_b1, gRPC c1   |  0.1 / 0.2 | 1.0 / 2.0|
| dummy_b1, gRPC c16  |  0.3 / 0.4 | 1.0 / 2.0|
| dummy_b1, REST c16  |  0.5 / 0.6 |          |

## Processor time for each request, µs

| case                | ie_serving |   Triton |
| ------------------- | ---------: | -------: |
| dummy_b1, gRPC c1   |         89 |      877 |
| dummy_b1, gRPC c16  |         53 |      777 |
| dummy_b1, REST c16  |         84 |          |

## Limits: the engine alone and the wire alone, a second

| case     |             limit |  per second |
| -------- | ----------------: | ----------: |
| dummy_b1 |          TCP echo | 11,905 ±99% |

## Processes

| server, model     | first reply s | idle MB | peak MB |
| ----------------- | ------------: | ------: | ------: |
| ie_serving, dummy |     0.69 ±23% | 111 ±0% | 201 ±1% |
"""


def test_the_pages_are_made_of_the_committed_results() -> None:
    results = page.Results.read(page.RESULTS.read_text())
    assert page.page(results) == page.PAGE.read_text(), "run `python -m benchmarks.page`"
    readme = page.README.read_text()
    assert page.README_TABLE.search(readme)
    assert page.readme(readme, results) == readme, "run `python -m benchmarks.page`"


def test_a_row_has_the_figures_of_its_case_and_the_ratio_to_each_peer() -> None:
    made = page.page(page.Results.read(RESULTS)).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in made if "|" in line]
    assert ["gRPC c1", "1,005 ±1%", "0.1 / 0.2", "89", "5.16 (4.09-7.09)"] in rows
    assert ["REST c16", "3,005 ±1%", "0.5 / 0.6", "84", ""] in rows
    assert ["TCP echo", "11,905 ±99%"] in rows
    assert ["ie_serving, dummy", "0.69 ±23%", "111 ±0%", "201 ±1%"] in rows


def test_the_readme_gets_the_day_and_the_figures() -> None:
    before = "| | here |\n|---|---|\n| a | 1 |\n"
    text = f"Small requests, in the same run\nof 2020-01-01:\n\n{before}\nWhy:"
    made = page.readme(text, page.Results.read(RESULTS))
    assert made.startswith("Small requests, in the same run\nof 2026-11-22:\n\n|  ")
    assert "| REST, 16 at a time  | 3,005 |" in made
    assert made.endswith("|\n\nWhy:")
