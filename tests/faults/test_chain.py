from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import FaultKind, chain, classify, safety_of
from perdure.faults.chain import LIMIT, leaves, links


def linked(*, cause: BaseException | None = None, context: BaseException | None = None) -> Exception:
    exc = Exception("link")
    exc.__cause__ = cause
    exc.__context__ = context
    exc.__suppress_context__ = cause is not None
    return exc


def test_causes_and_unsuppressed_contexts_come_nearest_first() -> None:
    deepest = linked()
    cause = linked(context=deepest)
    hidden = linked()
    top = linked(cause=cause, context=hidden)
    assert list(chain(top)) == [top, cause, deepest]
    top.__suppress_context__ = False
    assert list(chain(top)) == [top, cause, hidden, deepest]


def test_only_a_path_of_causes_is_explicit() -> None:
    bottom = linked()
    context = linked(cause=bottom)
    top = linked(context=context)
    assert list(links(top)) == [(top, True), (context, False), (bottom, False)]


def test_a_cycle_ends() -> None:
    one, two = linked(), linked()
    one.__cause__, two.__cause__ = two, one
    assert list(chain(one)) == [one, two]
    one.__cause__ = one
    assert list(chain(one)) == [one]
    assert classify(one).kind is FaultKind.PERMANENT


def test_a_walk_is_bounded() -> None:
    top = linked()
    for _ in range(100):
        top = linked(cause=top)
    assert len(list(chain(top))) == LIMIT == 32


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(
            st.tuples(st.none() | st.integers(0, n - 1), st.none() | st.integers(0, n - 1), st.booleans()),
            min_size=n,
            max_size=n,
        )
    )
)
def test_any_graph_of_exceptions_is_walked_once_and_classified(
    edges: list[tuple[int | None, int | None, bool]],
) -> None:
    nodes = [Exception(number) for number in range(len(edges))]
    for node, (cause, context, suppress) in zip(nodes, edges, strict=True):
        node.__cause__ = None if cause is None else nodes[cause]
        node.__context__ = None if context is None else nodes[context]
        node.__suppress_context__ = suppress
    walked = list(chain(nodes[0]))
    assert walked[0] is nodes[0]
    assert len({id(link) for link in walked}) == len(walked) <= LIMIT
    assert classify(nodes[0]).why == "unknown exception type"
    assert safety_of(nodes[0]) is None


def test_leaves_of_groups_in_groups() -> None:
    one, two, three = ValueError(), TypeError(), OSError()
    group = ExceptionGroup("outer", [one, ExceptionGroup("inner", [two, three])])
    assert list(leaves(group)) == [one, two, three]
    assert list(leaves(one)) == [one]
