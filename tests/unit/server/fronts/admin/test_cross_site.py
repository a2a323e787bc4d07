"""No page of another site reloads this server through a visitor's browser; programs may."""

import pytest

from ie_serving.core.values.errors import Forbidden
from ie_serving.server.fronts.admin import cross_site

HOST = {b"host": b"models.test:8000"}


def of_host(host: str, scheme: str = "http") -> dict[bytes, bytes]:
    """What a browser sends for a page that it has from this host."""
    return {b"host": host.encode(), b"origin": f"{scheme}://{host}".encode()}


OWNED = (
    *("evil.example.com", "evil.com:8501", "evil.com.:8501", "127.0.0.1.nip.io", "a.localhost.net"),
)
"""Names that their owner may have resolve to any address."""
OF_THE_NETWORK = (
    *("127.0.0.1:8501", "10.0.0.7", "[::1]:8501", "[fe80::1]", "localhost", "LOCALHOST:8501"),
    *("ie-serving", "ie-serving:8501", "a.localhost", "digits.models.svc", "nas.local:80"),
    *("digits.models.svc.cluster.local:8501", "host.docker.internal", "box.home.arpa."),
    *("nas.lan", "models.home:8501", "ml.corp", "ml.intranet", "ml.private"),
)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="no header"),
        pytest.param(
            {b"sec-fetch-site": b"same-origin", b"origin": b"http://models.test:8000"},
            id="the same origin",
        ),
        # A proxy that passes its own name on changes the one header, not the other.
        pytest.param(
            {b"sec-fetch-site": b"same-origin", b"origin": b"https://public.test"},
            id="the same origin behind a proxy",
        ),
        pytest.param({b"sec-fetch-site": b"none"}, id="no page"),
        pytest.param({b"origin": b"http://models.test:8000"}, id="the origin of the host"),
        pytest.param({b"origin": b"HTTP://Models.test:8000"}, id="the origin in capitals"),
    ],
)
def test_a_caller_that_is_not_of_another_site_may_change_things(fields: dict[bytes, bytes]) -> None:
    cross_site.check({**HOST, **fields}, any_site=False)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({b"sec-fetch-site": b"cross-site"}, id="another site"),
        pytest.param(
            {b"sec-fetch-site": b"same-site", b"origin": b"http://other.test"},
            id="another host of the site",
        ),
        pytest.param(
            {b"sec-fetch-site": b"cross-site", b"origin": b"http://models.test:8000"},
            id="another site with the host's origin",
        ),
        pytest.param({b"origin": b"http://evil.test"}, id="another origin"),
        pytest.param({b"origin": b"null"}, id="a hidden origin"),
        pytest.param({b"origin": b"http://models.test"}, id="another port"),
    ],
)
def test_a_page_of_another_site_may_not(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(Forbidden, match="may change nothing here"):
        cross_site.check({**HOST, **fields}, any_site=False)
    cross_site.check({**HOST, **fields}, any_site=True)


@pytest.mark.parametrize("host", OWNED)
def test_a_name_that_its_owner_has_lead_here_may_not_where_all_may_ask(host: str) -> None:
    """DNS rebinding: to the browser the page is of this very site."""
    with pytest.raises(Forbidden, match="the owner of that name could have it lead to this server"):
        cross_site.check(of_host(host), any_site=False, open_to_all=True)
    cross_site.check(of_host(host), any_site=False, open_to_all=False)
    cross_site.check(of_host(host, "https"), any_site=False, open_to_all=True)
    cross_site.check(of_host(host), any_site=True, open_to_all=True)
    cross_site.check({b"host": host.encode()}, any_site=False, open_to_all=True)


@pytest.mark.parametrize("host", OF_THE_NETWORK)
def test_addresses_and_names_that_cannot_be_registered_may(host: str) -> None:
    cross_site.check(of_host(host), any_site=False, open_to_all=True)
