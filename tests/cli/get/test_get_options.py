"""What can be written, and what is refused in one line before anything is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.get.options import OPTIONS, with_hedge_values
from perdure.cli.get.ranges import Known, Span, content_range, fits, is_complete, known_of
from perdure.cli.get.reading import name_from, read_checksum, read_header, read_method, read_url
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.get.conftest import Get

URL = "http://127.0.0.1:1/file.bin"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "URL... is missing"),
        (["ftp://example.com/x"], "such as https://example.com/file, got the scheme 'ftp'"),
        (["example.com/x"], "got 'example.com/x'"),
        (["http://"], "must be a URL with a host"),
        (["http://h:99999/x"], "must be an http or https URL"),
        (["http://h/a b"], "without blanks"),
        (["http://a..b/x"], "must be a URL with a host"),
        (["http://" + "a" * 64 + "/x"], "must be a URL with a host"),
        (["http://u:s3cret@/x"], "got 'http://***@/x'"),
        (["http://example.com/"], "-o FILE is needed where the URL does not end in a file name"),
        (["http://example.com/%2e%2e"], "-o FILE is needed"),
        (["http://example.com/..%2Fx"], "-o FILE is needed"),
        (["-o", ".", URL], "-o must be a file, got the folder '.'"),
        (["--attempts", "0", URL], "--attempts must be a whole number >= 1"),
        (["--attempts", "unlimited", URL], "--attempts unlimited needs --deadline"),
        (["--wait", "sometimes", URL], "--wait must be one of"),
        (["--timeout", "0", URL], "--timeout must be a duration of more than 0"),
        (["--deadline", "-1", URL], "--deadline must be a duration"),
        (["--max-retry-after", "x", URL], "--max-retry-after must be a duration"),
        (["--stall", "0", URL], "--stall must be a duration of more than 0"),
        (["--method", "PATCH", URL], "--method must be one of GET, HEAD, PUT, DELETE, POST, got 'PATCH'"),
        (["--method", "POST", URL], "--method POST needs --idempotency-key"),
        (["--idempotency-key", "a b", URL], "--idempotency-key must be 1 to 255 visible ASCII characters"),
        (["--data", "x", URL], "--data goes with --method PUT or POST, got --method GET"),
        (["--method", "PUT", "--data", "@none", URL], "--data must be text, @- or @ and the name of a file"),
        (["--header", "A: b\r\nC: d", URL], "--header A must have a value of printable Latin-1"),
        (["--header", "A\r\nB: d", URL], "--header must be a header such as"),
        (["--header", "nothing", URL], "--header must be a header such as"),
        (["--header", "A: \u20ac", URL], "printable Latin-1"),
        (["--header", "Range: bytes=1-", URL], "--header must not be Range: perdure resumes by itself"),
        (["--header", "A: 1", "--header", "a: 2", URL], "--header must not give the same name twice"),
        (["--sha256", "abc", URL], "--sha256 must be 64 hexadecimal digits for sha256, got 'abc'"),
        (["--checksum", "crc32:0", URL], "--checksum must be ALGORITHM:HEX with one of md5, sha1"),
        (["--sha256", "0" * 64, "--checksum", "md5:" + "0" * 32, URL], "say the same thing"),
        (["--hedge", URL], "--hedge asks the next URL, so it needs two or more, got one"),
        (["--hedge", "--method", "DELETE", URL, URL], "with --method GET or HEAD, got DELETE"),
        (["-o", "-", "--json", URL], "--json would write to standard output, where the content goes"),
        (["-o", "-", "--events", "-", URL], "--events would write to standard output"),
        (["--config", "perdure.toml", URL], "--config names a file of policies"),
        (["--policy", "none", URL], "--policy must be one of"),
        (["--policy", "none", "--config", "none.toml", URL], "none.toml"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_and_exit_2(get: Get, args: list[str], words: str) -> None:
    done = get(*args)
    assert done.code == 2, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("perdure get: ")
    assert words in line
    assert "s3cret" not in line


def test_every_option_has_help_and_the_line_is_short(get: Get) -> None:
    assert all(getattr(one, "help", "") for one in OPTIONS if one.param_type_name == "option")
    assert "-o, --output FILE" in get("--help").out.decode()


def test_a_plan_is_shown_and_nothing_is_asked(get: Get) -> None:
    done = get("--explain", "--hedge", URL, "http://127.0.0.1:1/other", "--sha256", "0" * 64)
    assert done.code == 0, done.err
    text = done.out.decode()
    assert "attempts       4 for each URL, counted anew after each that got further" in text
    assert "before attempt 2: 50 ms expected" in text
    assert "hedge          the next URL is asked too after 1 s" in text
    assert get.names() == set()


def test_a_plan_as_json(get: Get) -> None:
    plan = json.loads(get("--explain", "--json", "-o", "-", URL).out)
    assert plan["schema"] == "perdure.explain/1"
    assert plan["get"]["urls"] == [URL]
    assert "no-deadline" in [one["code"] for one in plan["plan"]["warnings"]]


@pytest.mark.parametrize(
    ("args", "settled"),
    [
        (["--hedge", "http://a"], ["--hedge=1s", "http://a"]),
        (["--hedge", "250ms", "http://a"], ["--hedge=250ms", "http://a"]),
        (["--hedge=2", "http://a"], ["--hedge=2", "http://a"]),
        (["http://a", "--hedge"], ["http://a", "--hedge=1s"]),
        (["--", "--hedge"], ["--", "--hedge"]),
    ],
)
def test_hedge_takes_a_duration_or_none(args: list[str], settled: list[str]) -> None:
    assert with_hedge_values(args) == settled


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h/a/b.tar.gz?x=1", "b.tar.gz"),
        ("http://h/a%20b", "a b"),
        ("http://h/a/", None),
        ("http://h", None),
        ("http://h/-", None),
        ("http://h/%2Fetc%2Fpasswd", None),
        ("http://h/a%0Ab", None),
        ("http://h/c%3Aa", None),
        ("http://h/" + "x" * 300, None),
    ],
)
def test_the_name_is_the_last_one_of_the_url_and_safe(url: str, name: str | None) -> None:
    assert name_from(url) == name


@given(st.text())
def test_a_name_stays_in_its_folder(text: str) -> None:
    name = name_from(f"http://h/{text.translate(dict.fromkeys(map(ord, '?#[]')))}")
    assert name is None or (name not in ("", ".", "..") and not set(name) & set("/\\\0"))


@pytest.mark.parametrize("read", [read_url, read_header, read_checksum, read_method])
@given(text=st.text())
def test_readers_give_a_value_or_one_error(read: Callable[[str, str], object], text: str) -> None:
    try:
        value: object = read(text, "--field")
    except ConfigError as error:
        value = str(error) if str(error).startswith("--field ") else ""
    assert value


@given(name=st.text(), value=st.text())
def test_no_header_holds_a_line_break(name: str, value: str) -> None:
    try:
        found = read_header(f"{name}:{value}", "--header")
    except ConfigError:
        return
    assert not set("".join(found)) & set("\r\n\0")
    assert found[0].isascii()


# Ranges


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("bytes 0-9/10", Span(0, 10, 10)),
        (" BYTES  5-9/* ", Span(5, 10, None)),
        ("bytes 9-5/10", None),
        ("bytes 0-10/10", None),
        ("bytes */10", None),
        ("bytes 0-9", None),
        ("bytes -1-9/10", None),
        ("bytes 0-9/10, 0-9/10", None),
        ("bytes ٣-9/10", None),
        ("", None),
        (None, None),
    ],
)
def test_a_content_range_makes_sense_or_is_none(text: str | None, span: Span | None) -> None:
    assert content_range(text) == span


@given(st.text())
def test_any_content_range_is_read(text: str) -> None:
    span = content_range(text)
    assert span is None or 0 <= span.start < span.end


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 10**9))
def test_a_span_goes_on_only_where_it_begins_at_the_next_byte(start: int, length: int, have: int) -> None:
    span = Span(start, start + length, start + length)
    assert (fits(span, {}, have, Known()) == "") is (start == have)


@pytest.mark.parametrize(
    ("headers", "known", "checked", "complete"),
    [
        ({"content-range": "bytes */10", "etag": '"a"'}, Known('"a"'), False, True),
        ({"content-range": "bytes */10", "etag": '"b"'}, Known('"a"'), False, False),
        ({"content-range": "bytes */10"}, Known('"a"'), False, False),
        ({"content-range": "bytes */10"}, Known(), True, True),
        ({"content-range": "bytes */11", "etag": '"a"'}, Known('"a"'), True, False),
        ({}, Known('"a"'), True, False),
    ],
)
def test_a_416_is_believed_only_with_proof(
    headers: dict[str, str], known: Known, *, checked: bool, complete: bool
) -> None:
    assert is_complete(headers, 10, known, checked=checked) is complete


@given(st.dictionaries(st.sampled_from(["etag", "last-modified", "date"]), st.text()))
def test_validators_are_what_a_header_may_hold(headers: dict[str, str]) -> None:
    validator = known_of(headers, None).validator
    assert validator is None or not set(validator) & set("\r\n\0")
