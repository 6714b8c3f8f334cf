"""What is sent where: methods, bodies, headers, redirects, credentials; and that secrets are shown nowhere."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.get.redact import shown
from perdure.cli.get.wire import REDIRECTS, NotFollowed, _for_redirect, _redirected
from tests.cli.get.files import CONTENT, Step

if TYPE_CHECKING:
    from tests.cli.get.conftest import Get
    from tests.cli.get.files import Files

KEY = ("--idempotency-key", "order-7")


def to(url: str, status: int = 302) -> Step:
    return Step(status=status, headers={"Location": url})


def test_the_body_of_a_put_is_sent_with_every_attempt(get: Get, server: Files) -> None:
    (get.folder / "body").write_bytes(CONTENT)
    server.script = [Step(status=503)]
    server.always = Step(body=b"stored")
    done = get("--method", "put", "--data", "@body", server.url("/x"))
    assert (done.code, done.out) == (0, b"stored")
    assert [one.method for one in server.seen] == ["PUT", "PUT"]
    assert all(one.body == CONTENT for one in server.seen)
    assert server.seen[0].headers["content-type"] == "application/octet-stream"


def test_a_post_carries_its_key_with_every_attempt(get: Get, server: Files) -> None:
    server.script = [Step(status=500), Step(close=True)]
    server.always = Step(status=201, body=b"")
    done = get(
        "--method", "POST", *KEY, "--data", "a=1", "--header", "Content-Type: text/x", server.url("/x")
    )
    assert done.code == 0
    assert len(server.seen) == 3
    assert {one.headers["idempotency-key"] for one in server.seen} == {"order-7"}
    assert {one.body for one in server.seen} == {b"a=1"}
    assert {one.headers["content-type"] for one in server.seen} == {"text/x"}


def test_a_body_can_come_from_standard_input(
    get: Get, server: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    server.script = [Step(status=503)]
    assert get("--method", "PUT", "--data", "@-", server.url("/x")).code == 0
    assert [one.body for one in server.seen] == [b"piped", b"piped"]


def test_a_delete_is_tried_again(get: Get, server: Files) -> None:
    server.script = [Step(status=502)]
    server.always = Step(body=b"")
    assert get("--method", "DELETE", server.url("/x")).code == 0
    assert [one.method for one in server.seen] == ["DELETE", "DELETE"]


def test_a_head_shows_the_headers(get: Get, server: Files) -> None:
    server.script = [Step(status=503)]
    done = get("--method", "HEAD", server.url())
    assert done.code == 0
    assert done.out.decode().splitlines() == ["HTTP 200", 'etag: "v1"', f"content-length: {len(CONTENT)}"]
    assert get.names() == set()


def test_a_head_as_json_is_only_the_object(get: Get, server: Files) -> None:
    assert get("--method", "HEAD", "--json", server.url()).report["attempts"][0]["status"] == 200


def test_content_that_is_encoded_all_the_same_is_saved_as_it_is(get: Get, server: Files) -> None:
    server.always = Step(headers={"Content-Encoding": "gzip"})
    assert get(server.url()).code == 0
    assert get.file() == CONTENT


def test_a_header_may_hold_latin_1(get: Get, server: Files) -> None:
    assert get("--header", "X-Name: Zo\u00eb", server.url()).code == 0
    assert server.seen[0].headers["x-name"] == "Zo\u00eb"


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(get: Get, servers: list[Files], status: int) -> None:
    servers[0].always = to("/there", status)
    servers[0].script = [to(servers[1].url("/there?x=1"), status)]
    done = get(servers[0].url())
    assert done.code == 0
    assert get.file() == CONTENT
    assert servers[1].seen[0].path == "/there?x=1"


def test_resuming_goes_through_the_redirect_again(get: Get, servers: list[Files]) -> None:
    servers[0].always = to(servers[1].url())
    servers[1].script = [Step(cut=1000)]
    assert get(servers[0].url()).code == 0
    assert servers[1].ranges == [None, "bytes=1000-"]
    assert get.file() == CONTENT


def test_another_host_gets_no_secret(get: Get, servers: list[Files]) -> None:
    servers[0].script = [to("/again", 307)]
    servers[0].always = to(servers[1].url(), 307)
    secret = (
        "--header",
        "Authorization: Bearer s3cret",
        "--header",
        "X-Api-Key: s3cret",
        "--header",
        "Cookie: a=s3cret",
    )
    done = get(*secret, "--header", "Accept: text/csv", servers[0].url())
    assert done.code == 0
    assert servers[0].seen[1].headers["x-api-key"] == "s3cret", "the same host does"
    assert "s3cret" not in str(servers[1].seen[0].headers)
    assert servers[1].seen[0].headers["accept"] == "text/csv"
    assert servers[1].seen[0].headers["host"] == servers[1].host


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [(307, "PUT", b"data"), (308, "PUT", b"data"), (303, "GET", b""), (302, "PUT", b"data")],
)
def test_a_redirected_body_is_sent_or_left_out(
    get: Get, server: Files, status: int, method: str, body: bytes
) -> None:
    (get.folder / "body").write_bytes(b"data")
    server.script = [to("/there", status)]
    assert get("--method", "PUT", "--data", "@body", server.url()).code == 0
    assert (server.seen[1].method, server.seen[1].body) == (method, body)


def test_a_loop_of_redirects_ends(get: Get, server: Files) -> None:
    server.always = to("/again")
    done = get(server.url())
    assert done.code == 4
    assert len(server.seen) == REDIRECTS + 1
    assert f"more than {REDIRECTS} redirects" in done.err


@pytest.mark.parametrize(
    "location", ["ftp://example.com/x", "file:///etc/passwd", "http://[", "http://a..b/"]
)
def test_a_redirect_that_leads_nowhere_good_is_not_followed(get: Get, server: Files, location: str) -> None:
    server.always = to(location)
    done = get(server.url())
    assert done.code == 4, done.err
    assert len(server.seen) == 1


def answered(url: str, location: str, status: int = 302) -> httpx.Response:
    return httpx.Response(status, headers={"Location": location}, request=httpx.Request("GET", url))


@pytest.mark.parametrize(
    ("url", "location", "kept"),
    [
        ("http://h/a", "/b", True),
        ("http://h/a", "https://h/b", True),
        ("http://h/a", "https://h:8443/b", False),
        ("http://h/a", "http://h:81/b", False),
        ("https://h/a", "https://h:443/b", True),
        ("https://h/a", "https://other/b", False),
        ("https://h/a", "//h/b", True),
    ],
)
def test_a_secret_stays_with_its_origin(url: str, location: str, *, kept: bool) -> None:
    response = answered(url, location)
    target = _redirected(response)
    assert target is not None
    _, _, headers = _for_redirect(response, target, "GET", None, {"Authorization": "x", "Range": "y"})
    assert headers == ({"Authorization": "x"} if kept else {}) | {"Range": "y"}


def test_a_redirect_is_not_followed_to_where_anybody_can_read_along() -> None:
    with pytest.raises(NotFollowed, match="from https to http"):
        _redirected(answered("https://h/a", "http://h/a"))


def test_a_redirect_brings_no_credentials() -> None:
    target = _redirected(answered("http://h/a", "http://joe:s3cret@h/b"))
    assert target is not None
    assert str(target) == "http://h/b"


# Secrets


def test_credentials_in_a_url_are_sent_and_never_shown(get: Get, server: Files) -> None:
    server.script = [Step(status=503), Step(cut=1000), Step(status=404)]
    url = f"http://joe:s3cret%40@{server.host}/file.bin?token=s3cret&page=2"
    done = get("--json", "--events", "log", url)
    assert done.code == 4
    assert server.seen[0].headers["authorization"] == "Basic am9lOnMzY3JldEA="
    assert server.seen[0].path == "/file.bin?token=s3cret&page=2"
    written = "".join((get.folder / name).read_text("latin-1") for name in ("log", "file.bin.part.json"))
    assert "s3cret" not in done.err + done.out.decode() + written
    assert done.report["urls"] == [f"http://***@{server.host}/file.bin?token=***&page=2"]
    explained = get("--explain", url)
    assert explained.code == 0
    assert "s3cret" not in explained.out.decode()


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c"),
        ("https://u:p@example.com:8443/", "https://***@example.com:8443/"),
        ("https://u:p@x@example.com/", "https://***@example.com/"),
        ("https://e.com/?X-Amz-Signature=1&X-Amz-Date=2&X-Amz-Credential=3", "https://e.com/?X-Amz-Signature=***&X-Amz-Date=2&X-Amz-Credential=***"),
        ("https://e.com/\x1b[31m", "https://e.com/\\x1b[31m"),
        ("http://[", "a URL that cannot be read"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_secrets(url: str, safe: str) -> None:
    assert shown(url) == safe


@given(st.text())
def test_showing_never_fails_and_stays_on_one_line(text: str) -> None:
    assert shown(text).isprintable()


@given(st.text(alphabet="abcXYZ019!$&'()*+,;=:%", min_size=4))
def test_a_password_is_never_shown(word: str) -> None:
    assert shown(f"https://someone:{word}{word}@h/a?b=c") == "https://***@h/a?b=c"
