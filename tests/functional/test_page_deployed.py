"""The page at `/` of a server as it is deployed: encrypted, of several workers; and taken away."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.certificates import Authority
from tests.functional.browser import CHROMIUM, chromium, tab
from tests.functional.servers import READY, SAMPLE, SAMPLE_FLAGS, Server

pytestmark = pytest.mark.deployed

MODEL = ("model", *SAMPLE_FLAGS)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pair = Authority(tmp_path_factory.mktemp("authority")).server()
    flags = (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}", "--workers=2")
    with Server("ie_serving", *MODEL, *flags) as server:
        server.line(READY)
        yield server


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium")
def test_over_tls_and_of_two_workers_it_is_the_same(encrypted: Server) -> None:
    """And it asks only the server."""
    url = f"https://localhost:{encrypted.rest_port}"
    asked: list[str] = []
    with chromium() as browser, tab(browser, f"{url}/", ignore_https_errors=True) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.locator("table.models tbody tr", has_text="digits").get_by_role("link").click()
        form: Any = page.locator(".trial").filter(has_text="The same call")
        form.get_by_role("button", name="Send").click()
        form.locator(".verdict", has_text="200 in").wait_for()
        shown = page.locator(".programs code").first.filter(has_text="curl").text_content()
        assert f"{url}/v1/models/digits:predict" in shown
    own = (f"{url}/", f"blob:{url}/", "data:")
    assert len(asked) > 5
    assert [each for each in asked if not each.startswith(own)] == []


@pytest.mark.parametrize("command", ["ie_serving", "tensorflow_model_server"])
def test_where_there_is_none_its_address_is_not_found(command: str) -> None:
    without = (*MODEL, "--page=false")
    original = ("--model_name=digits", f"--model_base_path={SAMPLE}")
    flags = without if command == "ie_serving" else original
    with Server(command, *flags) as server:
        server.ready()
        for path in ("/", "/page/main.js", "/page/state", "/docs"):
            assert server.rest.get(path).status_code == httpx.codes.NOT_FOUND
        assert "AVAILABLE" in server.rest.get("/v1/models/digits").text
