"""``perdure.headers``: ends that cross from one process to another in a header."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import subprocess
import sys
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import perdure
from perdure import Retry, headers
from perdure.testing import Script, VirtualClock, took
from perdure.testing.virtual import WALL
from tests.engine.tasks import LOOPS, forever
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMS = ("unix", "iso", "seconds", "milliseconds", "grpc")
NAME = "X-Request-Deadline"
LEFT = st.floats(0, 1e7) | st.floats(0, 10)  # of these, all forms but gRPC's hold the milliseconds
ANY = st.text() | st.from_regex(r"[0-9]{0,20}[.,:TZ+ nmuSMH-]?[0-9]{0,20}[numSMHZ]?") | st.floats().map(str)


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """Virtual time: the wall clock begins at 17 March 2030, 17:46:40 UTC."""
    with VirtualClock() as virtual:
        yield virtual


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """The log lines of a process that has written none so far."""
    monkeypatch.setattr(headers, "_lines_left", [1])
    caplog.set_level(logging.DEBUG, "perdure")
    return caplog


def written(seconds: float, form: str, *, later: float = 0) -> dict[str, str]:
    """What is written ``later`` in a block of so many seconds."""
    with VirtualClock() as clock, perdure.deadline(seconds):
        clock.advance(later)
        return headers.write(form=form)


# -- writing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_without_an_end_there_is_no_header(form: str) -> None:
    assert headers.write(form=form) == {}
    with perdure.deadline(5), perdure.no_deadline():
        assert headers.write(form=form) == {}


@pytest.mark.parametrize(
    ("form", "header"),
    [
        ("unix", {NAME: "1900000002.500"}),
        ("iso", {NAME: "2030-03-17T17:46:42.500Z"}),
        ("seconds", {NAME: "2.500"}),
        ("milliseconds", {NAME: "2500"}),
        ("grpc", {"grpc-timeout": "2500000u"}),
    ],
)
def test_each_form_says_when_the_nearest_end_comes(form: str, header: dict[str, str]) -> None:
    with VirtualClock(), perdure.deadline(9), perdure.deadline(2.5), perdure.deadline(5):
        assert headers.write(form=form) == header
        assert headers.write("X-Mine", form=form) == {"X-Mine": next(iter(header.values()))}


@pytest.mark.parametrize("form", ["seconds", "milliseconds", "grpc"])
def test_time_left_runs_down_and_the_moment_stays(form: str) -> None:
    assert written(5, form, later=2) == written(3, form)
    assert written(5, "unix", later=2) == written(5, "unix") != written(3, "unix")


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("unix", "1900000001.000"),
        ("iso", "2030-03-17T17:46:41.000Z"),
        ("seconds", "0.000"),
        ("milliseconds", "0"),
        ("grpc", "0n"),
    ],
)
def test_an_end_that_has_passed_is_written_as_one(form: str, value: str) -> None:
    with VirtualClock() as clock, perdure.deadline(1):
        clock.advance(1)
        sent = headers.write(form=form)
        assert list(sent.values()) == [value]
        assert headers.time_left(sent, form=form) == 0


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (1e-9, "1n"),
        (0.05, "50000000n"),
        (0.1, "100000u"),
        (99.999999, "99999999u"),
        (100, "100000m"),
        (86_400, "86400000m"),
        (1e5, "100000S"),
        (1e8, "1666666M"),
        (1e300, "5000000M"),
    ],
)
def test_grpc_takes_the_finest_unit_that_fits_in_eight_digits(seconds: float, value: str) -> None:
    assert written(seconds, "grpc") == {"grpc-timeout": value}


@given(LEFT, st.sampled_from(FORMS))
@example(0.3, "grpc")
@example(0.10001499999999999, "grpc")  # the product with 10**6 is rounded up to a whole number
@example(0.11699999999999999, "seconds")
@example(2.3, "unix")
@example(4.35, "seconds")
def test_what_is_written_is_read_again_within_two_milliseconds_and_never_as_more(
    seconds: float, form: str
) -> None:
    with VirtualClock(), perdure.deadline(seconds):
        sent = headers.write(form=form)
        name = next(iter(sent))
        left = headers.time_left(sent, name, form=form if form == "milliseconds" else None)
    assert left is not None
    clocks = 1e-6 if form in {"unix", "iso"} else 0  # a float of today's date is no finer
    assert left <= seconds + clocks
    if form == "grpc":
        (value,) = sent.values()
        assert len(value) <= 9
        finest = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "S": 1, "M": 60, "H": 3600}[value[-1]]
        assert seconds - left <= finest * 1.001
    else:
        assert seconds - left <= 0.002


@given(st.floats(0, allow_infinity=False), st.sampled_from(FORMS))
@example(1.7e308, "iso")
def test_no_end_is_too_far_to_be_written_and_read(seconds: float, form: str) -> None:
    with VirtualClock(), perdure.deadline(seconds):
        left = headers.time_left(headers.write(form=form), form=form)
    assert left is not None
    assert 0 <= left <= min(seconds, headers.LONGEST) + 1e-6


# -- understanding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        (NAME, "5", 5),
        (NAME, " 5.25 ", 5.25),
        (NAME, "0", 0),
        (NAME, "1000000000", headers.LONGEST),
        (NAME, f"{WALL + 7:.3f}", 7),
        (NAME, f"{WALL + 7:.0f}", 7),
        (NAME, f"{WALL - 7:.0f}", 0),
        (NAME, f"{(WALL + 7) * 1000:.0f}", 7),
        (NAME, "1000000001", 0),
        (NAME, "9" * 200, headers.LONGEST),
        (NAME, "2030-03-17T17:46:47Z", 7),
        (NAME, "2030-03-17t17:46:47.250z", 7.25),
        (NAME, "2030-03-17 18:46:47.2500000009+01:00", 7.25),
        (NAME, "2030-03-17T12:16:47-05:30", 7),
        (NAME, "2030-03-17T17:46:60Z", 19),
        (NAME, "1999-12-31T23:59:59Z", 0),
        (NAME, "9999-12-31T23:59:59Z", headers.LONGEST),
        (NAME, "250m", 0.25),
        (NAME, "5, 3, 9", 3),
        (NAME, "never, 3", 3),
        (NAME, "5,,", 5),
        ("grpc-timeout", "1H", 3600),
        ("grpc-timeout", "2M", 120),
        ("grpc-timeout", "3S", 3),
        ("grpc-timeout", "4m", 0.004),
        ("grpc-timeout", "5u", 0.000005),
        ("grpc-timeout", "6n", 0.000000006),
        ("grpc-timeout", "99999999H", headers.LONGEST),
        ("Grpc-Timeout", "00000007S", 7),
        ("x-envoy-expected-rq-timeout-ms", "1500", 1.5),
        ("X-Time-For-Items", "1500", 1500),
        ("X-Deadline-Ms", f"{(WALL + 7) * 1000:.0f}", 7),
        ("X-Deadline-Ms", "2030-03-17T17:46:47Z", 7),
    ],
)  # fmt: skip
def test_name_and_value_tell_the_form(clock: VirtualClock, name: str, value: str, left: float) -> None:
    assert headers.time_left({name: value}, name) == pytest.approx(left, abs=1e-6)
    assert clock.now == 0


NONSENSE = [
    "never", "-5", "-0", "+5", "5s", "5 s", "1e3", "1_000", "inf", "Infinity", "nan", "0x10", ".5", "5.", "1.2.3",
    "٣٠", "²", "\0", "5\0", "250ms", "123456789S", "S", "-1S", "1.5S", "1h", "2030-03-17", "17:46:47",
    "2030-03-17T17:46:47", "2030-02-30T00:00:00Z", "2030-13-01T00:00:00Z", "2030-03-17T17:46:61Z",
    "2030-03-17T17:46:47123Z", "2030-W11-7T00:00:00Z", "20300317T174647Z", "2030-03-17T17:46:47+99:00",
    "0000-01-01T00:00:00Z", "Sun, 17 Mar 2030 17:46:47 GMT", "9" * 257, "5" + " " * 300,
]  # fmt: skip


@pytest.mark.parametrize("value", NONSENSE)
@pytest.mark.parametrize("name", [NAME, "grpc-timeout", "x-deadline-ms"])
def test_what_cannot_be_understood_is_no_end(clock: VirtualClock, name: str, value: str) -> None:
    assert headers.time_left({name: value}, name) is None
    with headers.read({name: value}, name):
        assert perdure.time_left() is None
    assert clock.now == 0


@pytest.mark.parametrize("value", ["5", "5.0", f"{WALL:.0f}", "2030-03-17T17:46:47Z"])
def test_under_grpcs_name_only_its_own_form_counts(clock: VirtualClock, value: str) -> None:
    assert headers.time_left({"grpc-timeout": value}, "grpc-timeout") is None
    assert headers.time_left({"grpc-timeout": value}, form="grpc") is None
    assert clock.now == 0


@pytest.mark.parametrize(
    ("form", "value", "left"),
    [
        ("seconds", "1900000007", headers.LONGEST),
        ("seconds", "5", 5),
        ("seconds", "5S", None),
        ("milliseconds", "1900000", 1900),
        ("milliseconds", "2030-03-17T17:46:47Z", None),
        ("unix", "5", 0),
        ("unix", "1900000007", 7),
        ("unix", "1900000007000", 7),
        ("unix", "never", None),
        ("iso", "5", None),
        ("grpc", "5", None),
    ],
)
def test_a_form_that_is_given_is_not_guessed(
    clock: VirtualClock, form: str, value: str, left: float | None
) -> None:
    assert headers.time_left({NAME: value}, NAME, form=form) == left
    assert clock.now == 0


class Hostile:
    """A mapping of which nothing works."""

    def items(self) -> NoReturn:
        raise RuntimeError("no items today")


def message() -> Message:
    fields = Message()
    fields["X-REQUEST-DEADLINE"] = "9"
    fields["x-request-deadline"] = "5"
    return fields


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({NAME: "5"}, 5),
        ({"x-request-deadline": "5"}, 5),
        ({"X-REQUEST-DEADLINE": b"5"}, 5),
        ({NAME: 5}, 5),
        ({NAME: ["9", "5"]}, 5),
        ([(NAME, "5")], 5),
        ([(b"host", b"here"), (b"x-request-deadline", b"5")], 5),
        (((b"x-request-deadline", b"9"), ("X-Request-Deadline", "5")), 5),
        (message(), 5),
        ({}, None),
        ({"X-Other": "5"}, None),
        ({NAME: ""}, None),
        ({NAME: " , "}, None),
        ({NAME: None}, None),
        ({NAME: b"\xff\xfe"}, None),
        ({NAME: math.nan}, None),
        ([], None),
        ([("alone",)], None),
        ([None, 5], None),
        (None, None),
        ("X-Request-Deadline: 5", None),
        (5, None),
        (Hostile(), None),
    ],
)
def test_headers_may_be_a_mapping_or_pairs_or_missing(
    clock: VirtualClock, given: object, left: float | None
) -> None:
    assert headers.time_left(given) == left
    with headers.read(given):
        assert perdure.time_left() == left
    assert clock.now == 0


@given(
    st.dictionaries(st.sampled_from([NAME, "grpc-timeout", "X-Ms-MS"]), ANY | st.binary())
    | st.lists(st.tuples(st.just(b"x-request-deadline"), st.binary() | ANY)),
    st.sampled_from([NAME, "grpc-timeout", "x-ms-ms"]),
    st.none() | st.sampled_from(FORMS),
    st.none() | st.floats(0, 1e9),
)
@example({NAME: "999999999"}, NAME, None, 1e9)
@example({NAME: "0001-01-01T00:00:00+14:00"}, NAME, None, None)
@example({NAME: "9999-12-31T23:59:59-23:59"}, NAME, "iso", None)
def test_nothing_that_is_sent_raises_or_gives_a_time_that_is_none(
    sent: object, name: str, form: str | None, cap: float | None
) -> None:
    left = headers.time_left(sent, name, form=form, cap=cap)
    if left is not None:
        assert 0 <= left <= headers.LONGEST
        assert cap is None or left <= cap
    block = headers.read(sent, name, form=form, cap=cap)
    try:
        with block:
            now = perdure.time_left()
    except perdure.DeadlineExceeded:
        assert left is not None
    else:
        assert (now is None) == (left is None)


# -- blocks --------------------------------------------------------------------------------------------


class TestBlock:
    @pytest.mark.parametrize("loop", LOOPS)
    def test_async_work_is_cut_at_the_callers_end(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> None:
            async with headers.read({NAME: "2.5"}):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded, match=r"^the deadline of 2.5 s was exceeded$"):
            run_async(loop, main)
        assert clock.now == 2.5

    def test_sync_guarded_calls_begin_nothing_past_it(self, clock: VirtualClock) -> None:
        script = Script(took(2, ConnectionError("first")), "late")
        policy = Retry(backoff=perdure.Constant(1))
        with headers.read({NAME: "2.5"}), pytest.raises(ConnectionError, match="first"):
            policy.call(script)
        assert (len(script.calls), clock.now) == (1, 2)

    @pytest.mark.parametrize(
        ("name", "value"),
        [(NAME, "0"), (NAME, f"{WALL - 1:.0f}"), (NAME, "2030-03-17T17:46:40Z"), ("grpc-timeout", "0n")],
    )
    def test_an_end_in_the_past_refuses_the_work_before_it_begins(
        self, clock: VirtualClock, name: str, value: str
    ) -> None:
        begun = False
        with (
            pytest.raises(perdure.DeadlineExceeded, match="had passed before the work began"),
            headers.read({name: value}, name),
        ):
            begun = True
        assert not begun
        assert perdure.time_left() is None
        assert clock.now == 0

    def test_so_does_one_that_passes_between_reading_and_entering(self, clock: VirtualClock) -> None:
        block = headers.read({NAME: "2"})
        clock.advance(2)
        with pytest.raises(perdure.DeadlineExceeded):
            block.__enter__()

    def test_it_is_counted_from_reading_on(self, clock: VirtualClock) -> None:
        block = headers.read({NAME: "5"})
        clock.advance(2)
        with block:
            assert perdure.time_left() == 3

    def test_a_nearer_end_around_holds_and_a_farther_one_does_not(self, clock: VirtualClock) -> None:
        for around, left in ((2, 2), (9, 5)):
            with perdure.deadline(around), headers.read({NAME: "5"}):
                assert perdure.time_left() == left
        assert clock.now == 0

    @pytest.mark.parametrize("sent", [None, {}, {NAME: "never"}])
    def test_without_an_end_those_around_hold(self, clock: VirtualClock, sent: object) -> None:
        with perdure.deadline(9), headers.read(sent, cap=1) as block:
            assert perdure.time_left() == 9
        assert isinstance(block, headers.Received)
        assert perdure.time_left() is None

        async def main() -> float | None:
            async with headers.read(sent):
                return perdure.time_left()

        assert asyncio.run(main()) is None
        assert clock.now == 0

    @pytest.mark.parametrize(("cap", "left"), [(2, 2), ("1500ms", 1.5), (9, 5), (None, 5)])
    def test_the_cap_bounds_what_a_caller_may_ask_for(
        self, clock: VirtualClock, cap: Any, left: float
    ) -> None:
        assert headers.time_left({NAME: "5"}, cap=cap) == left
        with headers.read({NAME: "5"}, cap=cap):
            assert perdure.time_left() == left
        assert clock.now == 0

    def test_the_error_of_the_body_passes(self) -> None:
        for sent in ({NAME: "5"}, {}):
            with pytest.raises(KeyError), headers.read(sent):
                raise KeyError

    def test_one_object_serves_one_block(self) -> None:
        block = headers.read({NAME: "5"})
        with block, pytest.raises(RuntimeError, match="entered once"):
            block.__enter__()

    def test_what_was_received_can_be_sent_on(self, clock: VirtualClock) -> None:
        with headers.read({NAME: "5"}):
            clock.advance(2)
            assert headers.write(form="seconds") == {NAME: "3.000"}


def test_an_end_crosses_into_another_process() -> None:
    program = """
import sys
from perdure import headers, time_left
with headers.read([("X-Request-Deadline", sys.argv[1])]):
    print(time_left())
"""
    with perdure.deadline(3600):
        sent = headers.write()[NAME]
    child = subprocess.run(
        [sys.executable, "-c", program, sent],
        env={**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert 3500 < float(child.stdout) <= 3600


# -- the log -------------------------------------------------------------------------------------------


def test_nonsense_is_worth_one_line_in_a_process(log: pytest.LogCaptureFixture) -> None:
    for value in ("never\r\nspoofed", "x" * 10_000, "-1"):
        headers.time_left({NAME: value})
    (line,) = log.records
    assert (line.name, line.levelname) == ("perdure", "WARNING")
    assert line.getMessage() == (
        "the header x-request-deadline holds no end that can be read and is ignored: 'never\\r\\nspoofed'"
    )


def test_the_line_is_short_however_long_the_header(log: pytest.LogCaptureFixture) -> None:
    headers.time_left({NAME: "x" * 10_000})
    assert len(log.records[0].getMessage()) < 200


@pytest.mark.parametrize("sent", [None, {}, {NAME: ""}, {NAME: "5"}, {NAME: "0"}])
def test_what_is_missing_or_right_is_worth_none(log: pytest.LogCaptureFixture, sent: object) -> None:
    headers.time_left(sent)
    assert not log.records


def test_a_handler_that_raises_changes_nothing(log: pytest.LogCaptureFixture) -> None:
    def refuse(_record: logging.LogRecord) -> NoReturn:
        raise RuntimeError

    logger = logging.getLogger("perdure")
    logger.addFilter(refuse)
    try:
        assert headers.time_left({NAME: "never"}) is None
    finally:
        logger.removeFilter(refuse)
    assert not log.records


def test_without_logging_there_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.logs.logger", lambda: None)
    monkeypatch.setattr(headers, "_lines_left", [1])
    assert headers.time_left({NAME: "never"}) is None
    assert headers._lines_left == [1]


# -- misuse --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Unix", "", "rfc3339", 5, ["unix"]])
def test_an_unknown_form_is_refused(form: Any) -> None:
    for use in (headers.write, lambda **given: headers.read({}, **given)):
        with pytest.raises(perdure.ConfigError, match=r"^form must be one of unix, iso, .*, got "):
            use(form=form)


@pytest.mark.parametrize("name", ["", "X Deadline", "X-Deadline:", "X\r\nY", "é", 5, b"X-Deadline"])
def test_a_name_that_no_header_has_is_refused(name: Any) -> None:
    for use in (headers.write, lambda given: headers.time_left({}, given)):
        with pytest.raises(perdure.ConfigError, match=r"^name must be the name of a header, got "):
            use(name)


@pytest.mark.parametrize("cap", [-1, math.nan, math.inf, "soon", True])
def test_a_cap_that_is_no_duration_is_refused(cap: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^cap must be a duration of 0 or more"):
        headers.read(None, cap=cap)
