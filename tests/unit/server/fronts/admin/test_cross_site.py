"""No page of another site reloads this server through a visitor's browser; programs may."""

import pytest

from ie_serving.core.errors import Forbidden
from ie_serving.server.fronts.admin import cross_site

HOST = {b"host": b"models.test:8000"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"sec-fetch-site": b"same-origin", b"origin": b"http://models.test:8000"},
        # A proxy that passes its own name on changes the one header, not the other.
        {b"sec-fetch-site": b"same-origin", b"origin": b"https://public.test"},
        {b"sec-fetch-site": b"none"},
        {b"origin": b"http://models.test:8000"},
        {b"origin": b"HTTP://Models.test:8000"},
    ],
)
def test_who_is_not_of_another_site_may_change_things(fields: dict[bytes, bytes]) -> None:
    cross_site.check({**HOST, **fields}, any_site=False)


@pytest.mark.parametrize(
    "fields",
    [
        {b"sec-fetch-site": b"cross-site"},
        {b"sec-fetch-site": b"same-site", b"origin": b"http://other.test"},
        {b"sec-fetch-site": b"cross-site", b"origin": b"http://models.test:8000"},
        {b"origin": b"http://evil.test"},
        {b"origin": b"null"},
        {b"origin": b"http://models.test"},
    ],
)
def test_a_page_of_another_site_may_not(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(Forbidden, match="may change nothing here"):
        cross_site.check({**HOST, **fields}, any_site=False)
    cross_site.check({**HOST, **fields}, any_site=True)
