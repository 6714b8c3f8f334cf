"""One state for several hosts: one of them being down would take the others with it, so it is said once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import perdure
from perdure.engine.hosts import host_of


class Url:
    scheme, host = "https", "B.example"

    def __str__(self) -> str:
        return "https://B.example:8443/x"


@pytest.mark.parametrize(
    ("args", "kwargs", "host"),
    [
        (("https://a.example/x",), {}, "a.example"),
        (("GET", "http://user:pass@A.example:81?q=1"), {}, "a.example:81"),
        (("GET",), {"url": "https://a.example#f"}, "a.example"),
        ((Url(),), {}, "b.example:8443"),
        (("ftp://a.example", "http:/a", "http://"), {}, None),
        ((1, b"http://a.example", None), {}, None),
        (("a", "b", "c", "http://a.example"), {}, None),
    ],
)
def test_the_host_is_read_from_the_first_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], host: str | None
) -> None:
    assert host_of(args, kwargs) == host


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "several hosts" in one.getMessage()]


def call(guarded: Any, *urls: str) -> None:
    stop = perdure.listen(lambda _: None)  # so that every call is looked at, not one in so many
    for url in urls:
        guarded.call(lambda one: one, url)
    stop()


def test_a_second_host_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "perdure"):
        call(
            perdure.Dependency("api"),
            "https://a.example/1",
            "https://a.example/2",
            "https://b.example/",
            "https://c.example/",
        )
    assert lines(caplog) == [
        "api reaches several hosts (a.example, b.example) without a key: they share one state; give key="
    ]


def test_a_key_is_the_way_out(caplog: pytest.LogCaptureFixture) -> None:
    keyed = perdure.Dependency("api", key=lambda url: url[:17])
    with caplog.at_level(logging.WARNING, "perdure"):
        call(keyed, "https://a.example/", "https://b.example/")
        call(perdure.Dependency("other").at("k"), "https://a.example/", "https://b.example/")
    assert not lines(caplog)
