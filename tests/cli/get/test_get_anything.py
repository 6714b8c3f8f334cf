"""Whatever a server does on the way: the file is right or is not there, and no byte is written twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.get.files import CONTENT, ETAG, Files, Step

if TYPE_CHECKING:
    from tests.cli.get.conftest import Get

SIZE = len(CONTENT)
DATES = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"}

steps = st.lists(
    st.builds(
        Step,
        status=st.sampled_from([None, None, None, 503, 429, 206]),
        headers=st.sampled_from([{}, DATES]),
        cut=st.none() | st.integers(0, SIZE),
        close=st.sampled_from([False, False, False, True]),
        ranges=st.booleans(),
        if_range=st.booleans(),
        etag=st.sampled_from([ETAG, ETAG, '"v2"', "W/x", None]),
        span=st.none() | st.builds("bytes {}-{}/{}".format, *[st.integers(0, SIZE)] * 2, st.just(SIZE)),
        at_most=st.none() | st.integers(1, SIZE),
        length=st.booleans(),
    ).filter(
        lambda step: step.length or step.cut is None
    ),  # a body of unknown length that is cut looks whole
    max_size=6,
)
fewer = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fewer
@given(script=steps)
def test_a_file_is_whole_or_not_there(get: Get, script: list[Step]) -> None:
    """Every copy is the same here, so whatever is put together has to be that."""
    for path in get.folder.iterdir():
        path.unlink()
    with Files() as server:
        server.script = script
        done = get("--attempts", "9", "--quiet", server.url())
    assert done.code == 0
    assert get.file() == CONTENT
    assert get.names() == {"file.bin"}


@fewer
@given(script=steps)
def test_a_stream_has_each_byte_once(get: Get, script: list[Step]) -> None:
    with Files() as server:
        server.script = script
        done = get("--attempts", "9", "--quiet", "-o", "-", server.url())
    assert done.code in (0, 5)
    assert done.out == CONTENT[: len(done.out)]
    assert done.code or done.out == CONTENT
