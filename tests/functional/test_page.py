"""The page at `/` in a real browser, as a person uses it who has a mouse, a keyboard or a phone."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.functional import page_models
from tests.functional.browser import CHROMIUM, PATIENCE_MS, PHONE, WIDE, chromium, tab
from tests.functional.conftest import Serve
from tests.functional.page_models import MARKUP
from tests.functional.servers import SAMPLE, SAMPLE_FLAGS, Server, config_flag
from tests.process import PATIENCE_S
from tests.tables import named_by

pytestmark = [
    pytest.mark.deployed,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium"),
]

AT_ONCE_MS = 1500.0
"""Less than the 2 s after which the page looks at the server again."""
KEYS = {"ann": "predict,read *", "eve": "read digits", "bob": "predict *"}
"""Rights and models of each; "-key" behind the name makes the key."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = page_models.write(tmp_path_factory.mktemp("models"), MARKUP)
    command = ("config", f"--config_path={config}", "--ready_after_seconds=0")
    with Server("ie_serving", *command, "--enable_cors") as process:
        yield process.ready()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(
        "".join(
            f"{name} {rights} sha256:{hashlib.sha256(f'{name}-key'.encode()).hexdigest()}\n"
            for name, rights in KEYS.items()
        )
    )
    user = ("--enable_auth", "--auth_username=admin", "--auth_password=word")
    model = ("model", *SAMPLE_FLAGS)
    with Server("ie_serving", *model, f"--api_key_file={file}", *user) as process:
        yield process.ready()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    with tab(browser, server.url) as opened:
        yield opened


def row(page: Any, name: str) -> Any:
    return page.locator("table.models tbody tr", has_text=name)


def opened(page: Any, url: str, model: str) -> Any:
    """Go to a model, and wait for its form."""
    page.goto(f"{url}/#/model/{model}")
    return page.locator(".trial").filter(has_text="The same call")


def programs(page: Any, words: str) -> str:
    """Give the program that is shown, once it has certain words."""
    shown = page.locator(".programs code").first.filter(has_text=words)
    return str(shown.text_content())


def test_the_page_shows_models_states_and_a_failure_with_its_cause(
    browser: Any, server: Server
) -> None:
    server.rest.post("/v1/models/ranker:predict", json={"instances": ["no number"]})
    with tab(browser, server.url) as page:
        assert "available" in row(page, "digits").text_content()
        assert "stable → 2" in row(page, "digits").text_content()
        broken = row(page, "ranker")
        assert "6 available" in broken.text_content()
        assert "7 failed" in broken.text_content()
        assert "model.onnx is no ONNX model" in broken.locator(".cause").text_content()
        page.locator("table.errors", has_text="INVALID_ARGUMENT").wait_for()
        page.get_by_label("only those with trouble").check()
        assert not row(page, "digits").is_visible()
        assert broken.is_visible()


def test_models_on_demand_tell_whether_they_are_loaded_and_the_budget(browser: Any) -> None:
    model = ("model", *SAMPLE_FLAGS, "--load=on_demand")
    with Server("ie_serving", *model, "--model_memory_budget_bytes=4000000000") as server:
        server.ready()
        with tab(browser, server.url) as page:
            row(page, "digits").filter(has_text="2 known, loads at its first request").wait_for()
            said = "of its budget of 4 GB; 0 of 1 models are loaded."
            page.locator("p.hint", has_text=said).wait_for()
            server.rest.post("/v1/models/digits:predict", json={"instances": [[0.0] * 64]})
            row(page, "digits").filter(has_text="2 available").wait_for()
            page.locator("p.hint", has_text="1 of 1 models are loaded.").wait_for()


def test_the_page_shows_shares_of_the_traffic_and_differences_of_a_shadow(
    browser: Any, tmp_path: Path, serve: Serve
) -> None:
    entry = {
        "name": "digits",
        "base_path": str(SAMPLE),
        "version_labels": {"stable": 1, "canary": 2},
        "traffic": {"stable": 90, "canary": 10},
        "shadow": {"label": "canary", "sampling_rate": 1, "tolerance": 0},
    }
    server = serve("ie_serving", "config", config_flag(tmp_path / "config.json", entry))
    with tab(browser, server.url) as page:
        told = row(page, "digits").filter(has_text="1 available 90 %")
        told.filter(has_text="2 available 10 %").wait_for()
        body = {"instances": [[0.0] * 64]}
        server.rest.post("/v1/models/digits/versions/1:predict", json=body).raise_for_status()
        row(page, "digits").get_by_role("link").click()
        versions = page.locator("table.of-versions", has_text="90% of the split traffic")
        versions.filter(has_text="shadow of digits: 1 of 1 answers differ").wait_for()


def test_rates_and_latencies_come_live(browser: Any, server: Server) -> None:
    """Between two looks the requests that were sent stand in the table and in the plots."""
    with tab(browser, server.url) as page:
        page.clock.install()
        page.reload()
        row(page, "digits").wait_for()
        for _ in range(20):
            server.rest.post("/v1/models/digits:predict", json={"instances": [[0.0] * 64]})
        look(page)
        row(page, "digits").locator("td", has_text=re.compile("^[0-9.]+ [µm]s$")).first.wait_for()
        assert page.locator(".plot path.one[d^=M]").count() == 3


def test_a_server_that_does_not_answer_is_told_of_and_asked_again(
    browser: Any, server: Server
) -> None:
    with tab(browser, server.url) as page:
        page.clock.install()
        page.reload()
        page.locator("#connection", has_text="live").wait_for()
        page.route("**/page/state", lambda route: route.abort())
        page.clock.fast_forward(60_000)
        page.locator("#connection.bad", has_text="no answer, trying again").wait_for()
        page.unroute("**/page/state")
        look(page)
        page.locator("#connection", has_text="live").wait_for()


OF_MODEL = r'model_name="a\"b"'
METRICS = f"""
ie_serving_requests_total{{{OF_MODEL},version="1",method="Predict",code="OK"}} 7
ie_serving_requests_total{{{OF_MODEL},version="1",method="Predict",code="NOT_FOUND"}} 2
ie_serving_requests_total{{{OF_MODEL},version="",method="ListModels",code="OK"}} 50
ie_serving_request_seconds_bucket{{{OF_MODEL},method="Predict",le="0.1"}} 6
ie_serving_request_seconds_bucket{{{OF_MODEL},method="Predict",le="0.2"}} 7
ie_serving_request_seconds_bucket{{{OF_MODEL},method="Predict",le="+Inf"}} 7
:tensorflow:serving:request_count{{model_name="a",status="OK"}} 9
"""


def test_numbers_are_read_and_written(page: Any) -> None:
    found = page.evaluate(
        """async (metrics) => {
            const n = await import(`${location.origin}/page/numbers.js`);
            const { nice } = await import(`${location.origin}/page/plot.js`);
            const model = n.read(metrics).get('a"b');
            const median = (counts) => n.quantile(new Map(), new Map(counts), 0.5);
            return {
                counted: [model.ok, model.failed, ...model.buckets],
                quantiles: [median(model.buckets), median([]), median([[1, 0], [Infinity, 3]]),
                            median([[1, 0], [3, 2], [Infinity, 2]])],
                nice: [0, 0.9, 1.1, 21, 99].map(nice),
                durations: [0.0000123, 0.00456, 1.5, null].map(n.duration),
                bytes: [0, 999, 2048, 5e9].map(n.bytes),
                written: [0, 0.1234, 123.4, 12345, 3e6].map(n.written),
            };
        }""",
        METRICS,
    )
    assert found["counted"][:2] == [7, 2]
    assert [len(found["counted"]), found["quantiles"][1]] == [5, None]
    assert found["quantiles"][0] == pytest.approx(0.1 * 3.5 / 6)
    assert found["quantiles"][2:] == [1, 2]
    assert found["nice"] == [1, 1, 2, 50, 100]
    assert found["durations"] == ["12.3 µs", "4.56 ms", "1.5 s", "–"]  # noqa: RUF001  of the page
    assert found["bytes"] == ["0 B", "999 B", "2.05 kB", "5 GB"]
    assert found["written"] == ["0", "0.123", "123", "12.3 k", "3.00 M"]


def test_a_form_is_sent_and_its_call_is_curl(page: Any, server: Server, tmp_path: Path) -> None:
    """The very same bytes: what curl sends gets the very same answer."""
    form = opened(page, server.url, "ranker")
    form.get_by_label("Values", exact=True).fill("[[1, 2.5, -3, 4]]")
    form.get_by_role("button", name="Send").click()
    form.locator(".verdict", has_text="200 in").wait_for()
    answer = form.locator(".answer pre").text_content()
    assert json.loads(answer) == {"outputs": [[2.0, 5.0, -6.0, 8.0]]}
    curl = programs(page, "[[1, 2.5, -3, 4]]")
    run = subprocess.run(
        ["sh", "-c", curl], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert run.stdout == answer
    form.get_by_role("tab", name="Python").click()
    (tmp_path / "client.py").write_text(programs(page, "urllib"))
    run = subprocess.run(
        ["python3", tmp_path / "client.py"], capture_output=True, text=True, timeout=PATIENCE_S,
        check=True,
    )  # fmt: skip
    assert run.stdout == f"{answer}\n"


def test_an_input_that_cannot_be_sent_is_told_at_its_field(page: Any, server: Server) -> None:
    form = opened(page, server.url, "ranker")
    field = form.get_by_label("Values", exact=True)
    field.fill("[1, 2")
    form.get_by_role("button", name="Send").click()
    form.locator("fieldset .cause", has_text="This is no JSON").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    assert field.evaluate("each => each === document.activeElement")
    field.fill("[[1, 2]]")
    form.get_by_role("button", name="Send").click()
    form.locator(".verdict.bad", has_text="400 in").wait_for()


def test_an_image_is_uploaded_and_its_call_reads_the_file(
    page: Any, server: Server, tmp_path: Path
) -> None:
    Image.new("RGB", (40, 30), (200, 100, 50)).save(tmp_path / "sun set.png")
    form = opened(page, server.url, "photos")
    form.get_by_label("Images").set_input_files(tmp_path / "sun set.png")
    form.locator(".pictures img").wait_for()
    form.get_by_role("button", name="Send").click()
    form.locator(".verdict", has_text="200 in").wait_for()
    answer = form.locator(".answer pre").text_content()
    assert json.loads(answer) == {"outputs": [[50.0, 100.0, 200.0]]}
    assert form.locator(".bars li").count() == 3
    words = {"curl": "--globoff", "Python": "urllib", "Go": "net/http", "JavaScript": "fetch("}
    for language, (name, *tool) in TOOLS.items():
        if shutil.which(tool[0]) is None:
            continue  # the first two are everywhere
        form.get_by_role("tab", name=language).click()
        (tmp_path / name).write_text(programs(page, words[language]))
        run = subprocess.run(
            [*tool, name], capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path,
            check=False,
        )  # fmt: skip
        assert (run.stdout.strip(), run.stderr) == (answer, ""), language


def test_the_order_of_an_images_colours_is_shown_and_chosen(
    page: Any, server: Server, tmp_path: Path
) -> None:
    Image.new("RGB", (40, 30), (200, 100, 50)).save(tmp_path / "sun.png")
    form = opened(page, server.url, "photos")
    form.get_by_label("Images").set_input_files(tmp_path / "sun.png")
    order = form.get_by_label("Colours that the input gets")
    assert order.input_value() == "BGR"
    form.get_by_text("As the model is set: BGR.").wait_for()
    order.select_option("RGB")
    form.get_by_role("button", name="Send").click()
    form.locator(".verdict", has_text="200 in").wait_for()
    answer = form.locator(".answer pre").text_content()
    assert json.loads(answer) == {"outputs": [[200.0, 100.0, 50.0]]}
    assert programs(page, 'set color_format of this model to "RGB:RGB"')
    order.select_option("BGR")
    assert programs(page, "--globoff")


TOOLS = {
    "curl": ("client.sh", "sh"),
    "Python": ("client.py", "python3"),
    "JavaScript": ("client.js", "node"),
    "Go": ("client.go", "go", "run"),
}
"""File of a program, and what runs it."""


def test_below_a_path_of_a_proxy_it_is_the_same(browser: Any, server: Server) -> None:
    """All addresses are relative; the programs name the one in the browser."""

    def pass_on(route: Any) -> None:
        inner = route.request.url.replace("/under/", "/")
        route.fulfill(response=route.fetch(url=inner))

    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.route("**/under/**", pass_on)
        page.goto(f"{server.url}/under/")
        row(page, "digits").get_by_role("link").click()
        page.locator(".trial").get_by_role("button", name="Send").click()
        page.locator(".verdict", has_text="200 in").wait_for()
        assert programs(page, f"{server.url}/under/v1/models/digits:predict")


def test_markup_stays_text(page: Any, server: Server) -> None:
    """In the name of a model, in an error, and in an answer."""
    link = row(page, "onerror").get_by_role("link")
    assert link.text_content() == MARKUP
    link.click()
    page.get_by_role("heading", level=1, name=MARKUP, exact=True).wait_for()
    form = page.locator(".trial")
    form.get_by_label("Values", exact=True).fill(json.dumps([MARKUP]))
    form.get_by_role("button", name="Send").click()
    form.locator(".answer pre", has_text="<img").wait_for()
    assert page.locator("main img").count() == 0
    assert page.title() == f"{MARKUP} | ie_serving"


def test_an_address_that_is_no_utf_8_names_no_model(page: Any, server: Server) -> None:
    page.goto(f"{server.url}/#/model/%E0%A4")
    assert page.get_by_role("heading", level=1).text_content() == "%E0%A4"


def test_the_skip_link_may_be_opened_anew(browser: Any, server: Server) -> None:
    """As F5 behind it does."""
    with tab(browser, f"{server.url}/#main") as page:
        row(page, "digits").wait_for()


def test_a_view_is_filled_at_once_although_another_one_still_asks(
    page: Any, server: Server
) -> None:
    row(page, "ranker").wait_for()
    asked: list[Any] = []
    # Playwright takes no method of a list.
    page.route("**/page/models/*", lambda route: asked.append(route))  # noqa: PLW0108
    with page.expect_request("**/page/models/*"):
        row(page, "ranker").get_by_role("link").click()
    page.get_by_role("link", name="All models").click()
    page.get_by_role("heading", name="Models", exact=True).wait_for()
    asked[0].continue_()
    row(page, "ranker").wait_for(timeout=AT_ONCE_MS)


def test_the_keyboard_is_enough(page: Any, server: Server) -> None:
    """From the skip link to an answer, without a mouse; each stop is seen."""
    row(page, "ranker").wait_for()
    assert stop(page, "Tab") == "Skip to the content"
    assert page.locator(":focus").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    stops = [stop(page, "Tab") for _ in range(6)]
    assert stops[2:] == [MARKUP, "digits", "photos", "ranker"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.locator(".trial").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "ranker"
    while stop(page, "Tab") != "Send":
        pass
    page.keyboard.press("Enter")
    page.locator(".verdict[role=status]", has_text="200 in").wait_for()
    for _ in range(8):
        if stop(page, "Tab") == "curl":
            break
    page.keyboard.press("ArrowRight")
    assert programs(page, "urllib")


def stop(page: Any, key: str) -> str:
    page.keyboard.press(key)
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def test_plots_and_errors_stay_in_sight_with_200_models(
    browser: Any, serve: Serve, tmp_path: Path
) -> None:
    echo = {"driver": "null", "params": {"inputs": {"x": {"dtype": "float32", "shape": [-1]}}}}
    models = []
    for name in (f"m{number:03}" for number in range(200)):
        (tmp_path / name / "1").mkdir(parents=True)
        models.append({"name": name, "base_path": name, **echo})
    server = serve("ie_serving", "config", config_flag(tmp_path / "config.json", *models))
    server.rest.post("/v1/models/m000:predict", json={"instances": ["no number"]})
    with tab(browser, server.url) as page:
        page.locator("table.errors", has_text="INVALID_ARGUMENT").wait_for()
        assert page.locator("table.models tbody tr").count() == 200
        for seen in (".plots svg >> nth=0", "table.errors tbody tr >> nth=0"):
            box = page.locator(seen).bounding_box()
            assert box["y"] + box["height"] <= WIDE["height"], seen
        row(page, "m199").scroll_into_view_if_needed()
        assert page.evaluate("scrollY") == 0
        header = page.locator("table.models thead th >> nth=0").bounding_box()
        assert header["y"] >= page.locator(".rows").bounding_box()["y"]


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, server: Server) -> None:
    with tab(browser, server.url, viewport=PHONE, color_scheme="dark") as page:
        row(page, "ranker").wait_for()
        page.locator("summary", has_text="Configuration").click()
        page.locator("table.settings").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        opened(page, server.url, "digits").wait_for()
        programs(page, "curl")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", dark))) < 64


def enter(page: Any, key: str) -> None:
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Continue").click()


def test_a_key_is_asked_for_and_heeded(browser: Any, guarded: Server) -> None:
    with tab(browser, guarded.url) as page:
        enter(page, "wrong")
        page.locator("#refusal", has_text="not known").wait_for()
        enter(page, "ann-key")
        row(page, "digits").get_by_role("link").click()
        page.locator(".trial").get_by_role("button", name="Send").click()
        page.locator(".verdict", has_text="200 in").wait_for()
        curl = programs(page, "curl")
        assert "ann-key" not in page.content(), "no program holds a key"
        for environ, code in (({"AUTHORIZATION": "Bearer ann-key"}, 0), ({}, 22)):
            run = subprocess.run(
                ["sh", "-c", curl], env={**os.environ, **environ}, capture_output=True,
                timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert run.returncode == code
        page.get_by_role("button", name="Forget the key").click()
        page.get_by_label("Key").wait_for()


def test_a_key_that_no_header_can_carry_is_not_tried(browser: Any, guarded: Server) -> None:
    with tab(browser, guarded.url) as page:
        enter(page, "ann-key\N{ZERO WIDTH SPACE}")
        page.locator("#refusal", has_text="copied along").wait_for()
        enter(page, " ann-key ")
        row(page, "digits").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Models"


def test_a_password_is_as_good_as_a_key_and_no_secret_is_shown(
    browser: Any, guarded: Server
) -> None:
    with tab(browser, guarded.url) as page:
        page.locator("summary", has_text="User and password").click()
        page.get_by_label("User").fill("admin")
        page.get_by_label("Password").fill("word")
        page.get_by_role("button", name="Continue").click()
        page.locator("summary", has_text="Configuration").click()
        password = page.locator("table.settings tr", has_text="--auth_password")
        assert "(set, not shown)" in password.text_content()
        opened(page, guarded.url, "digits").wait_for()
        assert "Basic $(printf" in page.locator(".programs .hint").last.text_content()


def test_a_key_for_some_models_sees_those_and_is_told_what_it_may_not(
    browser: Any, guarded: Server
) -> None:
    with tab(browser, guarded.url) as page:
        enter(page, "eve-key")
        page.get_by_text("may ask for some models only").wait_for()
        page.get_by_label("Open one model by its name").fill("digits")
        page.get_by_role("button", name="Open").click()
        page.locator(".trial").get_by_role("button", name="Send").click()
        page.locator(".verdict.bad", has_text="403 in").wait_for()
        assert "lacks the right predict" in page.locator(".answer").text_content()


def test_a_hidden_page_asks_for_nothing(browser: Any, server: Server) -> None:
    with tab(browser, server.url) as page:
        page.clock.install()
        page.reload()
        row(page, "digits").wait_for()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        look(page)
        page.evaluate(
            "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        asked.clear()
        page.clock.run_for(600_000)
        assert asked == []
        with page.expect_response("**/metrics"):
            page.evaluate(
                "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
            )


def look(page: Any) -> None:
    """Let the page look at the server once, without the two seconds until then."""
    with page.expect_response("**/metrics"):
        page.clock.fast_forward(60_000)


def test_other_sites_are_shut_out(server: Server, guarded: Server) -> None:
    """Also where CORS lets them use the API, and where a password is taken."""
    origin = {"origin": "https://evil.test", "sec-fetch-site": "cross-site"}
    for path in ("/", "/page/state", "/page/configuration", "/page/models/digits"):
        headers = server.rest.get(path, headers=origin).headers
        assert "access-control-allow-origin" not in headers, path
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" in server.rest.get("/v1/models", headers=origin).headers
    admin = httpx.BasicAuth("admin", "word")
    for target in ("/v1/config/reload", "/v1/models/digits:poll"):
        reply = guarded.rest.post(target, headers=origin, auth=admin)
        assert (reply.status_code, "may change nothing" in reply.text) == (403, True)
        assert guarded.rest.post(target, auth=admin).status_code == 200
    challenges = [
        guarded.rest.get("/page/state", headers=headers).headers["www-authenticate"]
        for headers in ({}, {"x-ie-serving-page": "1"})
    ]
    assert ["Basic" in each for each in challenges] == [True, False]


@named_by(
    "method path",
    ("method", "path", "callers"),
    [
        ("GET", "/", "ann eve bob nobody"),
        ("GET", "/page/main.js", "ann eve bob nobody"),
        ("GET", "/page/state", "ann"),
        ("GET", "/page/configuration", "ann"),
        ("GET", "/page/models/digits", "ann eve"),
        ("POST", "/page/programs", "ann eve bob"),
    ],
)
def test_the_page_answers_the_callers_that_may_ask_for_it(
    guarded: Server, method: str, path: str, callers: str
) -> None:
    call = {"url": "http://h", "model": "m", "verb": "predict", "pieces": ["{}"]}
    body = call if method == "POST" else None
    for name in (*KEYS, "nobody"):
        headers = {} if name == "nobody" else {"authorization": f"Bearer {name}-key"}
        code = guarded.rest.request(method, path, headers=headers, json=body).status_code
        refused = 401 if name == "nobody" else 403
        assert code == (200 if name in callers.split() else refused), name
