"""Another site's page cannot read the explorer: host, origin and token are checked; every answer stays in its page."""

from collections.abc import Iterator
from typing import Any

import pytest

from attributary.explore.session import Session
from support.explored import HOST, PORT, TOKEN, Tab, client, session, table, written

API = [
    "/api/about",
    "/api/rows",
    "/api/node?node=0",
    "/api/count",
    "/api/rows.csv",
    "/api/plan",
    "/api/best",
    "/api/draws",
]
LABEL = "a label that nobody may see"
STATIC = ["/", "/explore.js", "/explore.css"]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session(written(table([LABEL]), tmp_path_factory.mktemp("guard") / "e.parquet"), keep=True)
    yield made
    made.close()


@pytest.fixture
def tab(opened: Session) -> Tab:
    return client(opened, ticket="k" * 43)


@pytest.mark.parametrize("path", [*API, *STATIC])
def test_our_own_page_is_answered(tab: Tab, path: str) -> None:
    own = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
    assert tab.get(path).status_code == 200
    assert tab.get(path, headers=own).status_code == 200
    assert tab.get(path, headers={"Host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize("path", [*API, *STATIC, "/nowhere", "/api/token"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1:{PORT}.evil.example",
        f"[::1]:{PORT}",
        "",
    ],
)
def test_another_host_is_refused_as_after_dns_rebinding(tab: Tab, path: str, host: str) -> None:
    answer = tab.get(path, headers={"Host": host})
    assert answer.status_code == 421 and answer.text == f"this server answers to {HOST} only"


@pytest.mark.parametrize("path", [*API, *STATIC, "/api/token"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        f"https://{HOST}",
        "http://127.0.0.1",
        f"http://127.0.0.1:{PORT + 1}",
        f"http://localhost:{PORT}",
    ],
)
def test_another_origin_is_refused_even_with_the_token(tab: Tab, path: str, origin: str) -> None:
    assert tab.get(path, headers={"Origin": origin}).status_code == 403
    assert tab.post("/api/reopen", headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
@pytest.mark.parametrize("path", API)
def test_what_the_browser_calls_another_site_is_refused(tab: Tab, path: str, site: str) -> None:
    assert tab.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        "Bearer é",
        f"Ticket {TOKEN}",
    ],
)
@pytest.mark.parametrize("path", API)
def test_without_the_token_nothing_is_told(opened: Session, path: str, shown: str | None) -> None:
    stranger = client(opened, token=None)
    headers: dict[str, Any] = {} if shown is None else {"Authorization": shown.encode()}
    answer = stranger.get(path, headers=headers)
    assert answer.status_code == 401 and LABEL not in answer.text
    assert stranger.post("/api/reopen", headers=headers).status_code == 401
    for static in STATIC:
        page = stranger.get(static)
        assert page.status_code == 200 and LABEL not in page.text and TOKEN not in page.text


def test_two_tokens_or_two_hosts_are_refused(tab: Tab) -> None:
    twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
    tab.headers = {}
    assert tab.get("/api/about", headers=twice).status_code == 401
    assert tab.get("/", headers=[("Host", HOST), ("Host", "evil.example")]).status_code == 421


def test_a_ticket_buys_the_token_once(tab: Tab) -> None:
    tab.headers = {}
    assert tab.get("/api/token").status_code == 401
    assert tab.get("/api/token", headers={"Authorization": f"Ticket {'x' * 43}"}).status_code == 401
    assert tab.get("/api/about", headers={"Authorization": f"Ticket {'k' * 43}"}).status_code == 401
    foreign = {"Authorization": f"Ticket {'k' * 43}", "Origin": "http://evil.example"}
    assert tab.get("/api/token", headers=foreign).status_code == 403
    bought = tab.get("/api/token", headers={"Authorization": f"Ticket {'k' * 43}"})
    assert (bought.status_code, bought.text) == (200, TOKEN)
    again = tab.get("/api/token", headers={"Authorization": f"Ticket {'k' * 43}"})
    assert again.status_code == 401 and TOKEN not in again.text


@pytest.mark.parametrize("path", [*API, *STATIC, "/nowhere"])
def test_every_answer_stays_in_its_page(tab: Tab, path: str) -> None:
    for answer in (tab.get(path), tab.get(path, headers={"Host": "evil.example"}), tab.request("OPTIONS", path)):
        headers = answer.headers
        assert not any(name.startswith("access-control") for name in headers)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", [*API, *STATIC])
def test_other_methods_are_refused(tab: Tab, path: str, method: str) -> None:
    assert tab.request(method, path).status_code == 405


def test_reopening_is_not_a_link(tab: Tab) -> None:
    assert tab.get("/api/reopen").status_code == 405
    assert tab.post("/api/reopen").status_code == 200


def test_only_our_files_are_served(tab: Tab) -> None:
    for path in ("/app.py", "/../app.py", "/%2e%2e/app.py", "/page.html", "/explore.js/../app.py", "//etc/passwd"):
        assert tab.get(path).status_code in (404, 200)
        assert "def " not in tab.get(path).text and "root:" not in tab.get(path).text
