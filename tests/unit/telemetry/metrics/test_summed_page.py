"""The page of several workers: sums, but for what each tells of the whole server."""

from prometheus_client.parser import text_string_to_metric_families

from ie_serving.telemetry.metrics.summed_page import counted, summed

FIRST = b"""# HELP ie_serving_requests_total Finished requests.
# TYPE ie_serving_requests_total counter
ie_serving_requests_total{model_name="a b",code="OK"} 3
# TYPE ie_serving_versions gauge
ie_serving_versions{model_name="m",state="AVAILABLE"} 1
# TYPE lag histogram
lag_bucket{le="0.1"} 2
lag_bucket{le="+Inf"} 4
lag_sum{} 0.5
lag_count{} 4
# TYPE process_start_time_seconds gauge
process_start_time_seconds 20.5
"""
SECOND = b"""# HELP ie_serving_requests_total Finished requests.
# TYPE ie_serving_requests_total counter
ie_serving_requests_total{model_name="a b",code="OK"} 4
ie_serving_requests_total{model_name="c",code="OK"} 1
# TYPE ie_serving_versions gauge
ie_serving_versions{model_name="m",state="AVAILABLE"} 1
# TYPE lag histogram
lag_bucket{le="0.1"} 1
lag_bucket{le="+Inf"} 1
lag_sum{} 0.25
lag_count{} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds 10.5
# TYPE only_there counter
only_there 7
"""


def test_numbers_are_added_and_versions_count_once() -> None:
    lines = summed([FIRST, SECOND], {}).decode().splitlines()
    assert lines == [
        "# HELP ie_serving_requests_total Finished requests.",
        "# TYPE ie_serving_requests_total counter",
        'ie_serving_requests_total{model_name="a b",code="OK"} 7',
        'ie_serving_requests_total{model_name="c",code="OK"} 1',
        "# TYPE ie_serving_versions gauge",
        'ie_serving_versions{model_name="m",state="AVAILABLE"} 1',
        "# TYPE lag histogram",
        'lag_bucket{le="0.1"} 3',
        'lag_bucket{le="+Inf"} 5',
        "lag_sum{} 0.75",
        "lag_count{} 5",
        "# TYPE process_start_time_seconds gauge",
        "process_start_time_seconds 10.5",
        "# TYPE only_there counter",
        "only_there 7",
    ]


def test_the_page_is_one_that_prometheus_reads() -> None:
    names = [
        each.name for each in text_string_to_metric_families(summed([FIRST, SECOND], {}).decode())
    ]
    assert names[0] == "ie_serving_requests" and names[-1] == "only_there"


def test_counts_of_gone_workers_are_added_to_series_that_are_there() -> None:
    gone = {'ie_serving_requests_total{model_name="a b",code="OK"}': 2.0, "other_total": 9.0}
    lines = summed([FIRST], gone).decode().splitlines()
    assert 'ie_serving_requests_total{model_name="a b",code="OK"} 5' in lines
    assert not any(line.startswith("other_total") for line in lines)


def test_series_of_the_gone_alone_stay_while_their_model_is_there() -> None:
    gone = {
        'ie_serving_requests_total{model_name="a b",code="NOT_FOUND"}': 2.0,
        'ie_serving_requests_total{model_name="unloaded",code="OK"}': 3.0,
        'ie_serving_requests_total{model_name="m",version="",code="OK"}': 4.0,
        'ie_serving_requests_total{model_name="m",version="1",code="unloaded"}': 5.0,
    }
    page = summed([FIRST], gone).decode()
    assert 'ie_serving_requests_total{model_name="a b",code="NOT_FOUND"} 2\n' in page
    assert 'ie_serving_requests_total{model_name="m",version="",code="OK"} 4\n' in page
    assert "unloaded" not in page


def test_gauges_are_not_counted() -> None:
    assert counted(FIRST) == {
        'ie_serving_requests_total{model_name="a b",code="OK"}': 3.0,
        'lag_bucket{le="0.1"}': 2.0,
        'lag_bucket{le="+Inf"}': 4.0,
        "lag_sum{}": 0.5,
        "lag_count{}": 4.0,
    }


def test_one_page_stays_as_it_is() -> None:
    assert summed([FIRST], {}) == FIRST


def test_a_worker_that_is_not_heard_takes_no_model_from_the_page() -> None:
    """The one that answers may have begun just now, and know no model yet."""
    gone = {'ie_serving_requests_total{model_name="later",code="OK"}': 1100.0}
    line = b'ie_serving_requests_total{model_name="later",code="OK"} 1100'
    assert line not in summed([FIRST], gone).splitlines()
    assert line in summed([FIRST], gone, whole=False).splitlines()
