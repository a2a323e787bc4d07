"""A page of many models is written in steps, while requests go on and models come and go."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from ie_serving.telemetry.metrics.page import LINES_AT_ONCE, REQUESTS, SMALL_PAGE_BYTES, Metrics
from tests.unit.telemetry.pages import GRPC, fail, serve


async def test_others_have_their_turn_while_it_is_written() -> None:
    metrics = Metrics()
    names = [f"m{number}" for number in range(50)]
    metrics.keep(names)
    for name in names:
        serve(metrics, name, GRPC)
    writing = asyncio.ensure_future(metrics.page())
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
        if turns < 10:  # what is counted meanwhile harms nothing
            serve(metrics, "m3", GRPC._replace(version=str(turns)))
            fail(metrics, "m3", "INTERNAL", GRPC._replace(version=str(turns)))
            metrics.add("m3").count_load("/m3", 1, succeeded=False)
            metrics.keep([*names, f"new{turns}"])
    page = bytes(writing.result()).decode()
    assert turns >= page.count("\n") // LINES_AT_ONCE
    told = {
        sample.labels["model_name"]
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == REQUESTS
    }
    assert told == set(names)


async def test_a_caller_while_the_page_is_written_gets_the_same_one() -> None:
    metrics = Metrics()
    metrics.keep([f"m{number}" for number in range(500)])
    first, second, third = (asyncio.ensure_future(metrics.page()) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()  # its client has left
    page = await second
    assert page is await third
    serve(metrics, "m1", GRPC)
    assert bytes(await metrics.page()).decode() == metrics.text() != bytes(page).decode()


async def test_a_page_that_outgrows_its_memory_is_whole() -> None:
    metrics = Metrics()
    for number in range(500):
        serve(metrics, f"m{number}", GRPC)
    page = bytes(await metrics.page())
    assert len(page) > 3 * SMALL_PAGE_BYTES
    assert page.decode() == metrics.text()


async def test_it_is_the_same_page() -> None:
    metrics = Metrics()
    serve(metrics, "m", GRPC)
    assert bytes(await metrics.page()).decode() == metrics.text()
