"""Print every public name of perdure with its signature: the text that tests/api.txt holds.

Public is what the package itself and its direct modules and subpackages name in `__all__`; what lies deeper
is the inside of its subpackage, except where users import one module per library. The text is the same on
every supported Python: annotations are shown as they are written in the source.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import typing
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

INTERNAL = {"perdure.core", "perdure.engine"}
# Subpackages with one module per library, each imported by itself.
OPEN = {"perdure.integrations", "perdure.observe"}
PROTOCOLS = {
    *("__call__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__await__", "__iter__", "__next__"),
    *("__aiter__", "__anext__", "__len__", "__getitem__", "__contains__"),
}
# What a constant may be to stand in the list with its value; the order of a set is nobody's promise.
PLAIN = (str, int, float, bool, tuple, type(None))


def main() -> None:
    """Print the list."""
    sys.stdout.write(render())


def render() -> str:
    """Give the list as text, module by module; a name that two modules show is written out in the first."""
    modules = public_modules()
    home: dict[int, str] = {}
    lines = ["# Written by `make api`. A change here is a change for users: it needs a line in CHANGELOG.md."]
    for module in modules:
        lines += ["", module.__name__]
        for name in sorted(module.__all__):
            value = getattr(module, name)
            shown = f"{module.__name__}.{name}"
            first = home.setdefault(id(value), shown) if _is_definition(value) else shown
            lines += [
                f"  {line}" for line in (_define(name, value) if first == shown else [f"{name} is {first}"])
            ]
    return "\n".join(lines) + "\n"


@cache
def public_modules() -> list[ModuleType]:
    """Give the modules that users import, the shallowest first."""
    names = [module.name for module in pkgutil.walk_packages(perdure.__path__, "perdure.")]
    modules = [perdure, *filter(None, (_loaded(name) for name in names if _is_public(name)))]
    found = [module for module in modules if hasattr(module, "__all__")]
    return sorted(found, key=lambda module: (module.__name__.count("."), module.__name__))


def _loaded(name: str) -> ModuleType | None:
    """Load a module; None for that of a client which is not installed here: niquests never is, beside urllib3."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("perdure"):
            raise
        return None


def _is_public(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    return not last.startswith("_") and name not in INTERNAL and parent in {"perdure", *OPEN}


def members(cls: type) -> dict[str, Any]:
    """Give the public members of a class, those of its perdure bases that users cannot name included."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is cls or (base.__module__.startswith("perdure") and base not in _published()):
            found.update(vars(base))
    return {
        name: value for name, value in sorted(found.items()) if not name.startswith("_") or name in PROTOCOLS
    }


@cache
def _published() -> set[type]:
    values = [getattr(module, name) for module in public_modules() for name in module.__all__]
    return {value for value in values if inspect.isclass(value)}


def _is_definition(value: object) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)


def _define(name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        return [f"module {name}"]
    if inspect.isclass(value):
        return _define_class(name, value)
    if inspect.isroutine(value):
        return _define_function(name, value)
    return [f"{name}: {type(value).__name__}{f' = {_default(value)}' if isinstance(value, PLAIN) else ''}"]


def _define_class(name: str, cls: type) -> list[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    lines = [f"class {name}({bases})" if bases else f"class {name}"]
    if issubclass(cls, enum.Enum):
        lines += [f"  {member.name} = {member.value!r}" for member in cls]
    elif _has_constructor(cls):
        lines.append(f"  {_signature(cls, '')}")
    lines += [f"  {field}" for field in sorted(_fields(cls))]
    for member, value in members(cls).items():
        lines += [f"  {line}" for line in _define_member(member, value)]
    return lines


def _define_member(name: str, value: Any) -> list[str]:
    if isinstance(value, classmethod | staticmethod):
        kind = type(value).__name__
        return [f"{kind} {line}" for line in _define_function(name, value.__func__)]
    if isinstance(value, property):
        return [f"property {name}{_returns(value.fget)}"]
    if isinstance(value, cached_property):
        return [f"property {name}{_returns(value.func)}"]
    return _define_function(name, value) if inspect.isfunction(value) else []


def _define_function(name: str, function: Any) -> list[str]:
    colour = "async def" if inspect.iscoroutinefunction(function) else "def"
    declared = _declared(sys.modules[function.__module__]).get(function.__qualname__, [])
    shapes = typing.get_overloads(function) or declared or [function]
    return [f"{colour} {_signature(shape, name)}" for shape in shapes]


@cache
def _declared(module: ModuleType) -> dict[str, list[Any]]:
    """Give the functions that a module declares for type checkers only, by qualified name."""
    found: dict[str, list[Any]] = {}
    for scope, block in _typing_only(ast.parse(inspect.getsource(module))):
        functions = [node for node in block if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for name in dict.fromkeys(node.name for node in functions):
            shapes = [node for node in functions if node.name == name]
            overloads = [node for node in shapes if "overload" in map(ast.unparse, node.decorator_list)]
            found[scope + name] = [_made(node, module) for node in overloads or shapes]
    return found


def _typing_only(tree: ast.Module | ast.ClassDef, scope: str = "") -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield scope, node.body
        if isinstance(node, ast.ClassDef):
            yield from _typing_only(node, f"{scope}{node.name}.")


def _made(node: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType) -> Any:
    node.decorator_list = []
    source = f"from __future__ import annotations\n{ast.unparse(node)}"
    names = dict(vars(module))
    exec(source, names)  # noqa: S102 - a declaration in our own source, whose body is `...`
    return names[node.name]


def _has_constructor(cls: type) -> bool:
    """Say whether perdure wrote the constructor; what Python shows for its own differs by version."""
    if typing.Protocol in cls.__bases__:
        return False
    for base in cls.__mro__:
        if "__init__" in vars(base) or "__new__" in vars(base):
            return base.__module__.startswith("perdure")
    return False


def _fields(cls: type) -> Iterator[str]:
    """Give what instances hold: declared, or set by the constructor, and not one of its parameters."""
    annotated = inspect.get_annotations(cls)
    named = (
        set(annotated) | {slot for slot in _slots(cls) if isinstance(slot, str)} | _set_in_constructor(cls)
    )
    if dataclasses.is_dataclass(cls):
        named -= {field.name for field in dataclasses.fields(cls) if field.init}
    if issubclass(cls, enum.Enum):
        named = set()
    for name in named:
        if not name.startswith("_"):
            yield f"{name}: {_annotation(annotated[name])}" if name in annotated else name


def _slots(cls: type) -> tuple[object, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _set_in_constructor(cls: type) -> set[str]:
    constructor = vars(cls).get("__init__")
    if not inspect.isfunction(constructor):
        return set()
    return {step.argval for step in dis.get_instructions(constructor) if step.opname == "STORE_ATTR"}


def _signature(target: Any, name: str) -> str:
    signature = inspect.signature(target)
    parameters = [
        parameter.replace(
            annotation=_verbatim(parameter.annotation, _annotation),
            default=_verbatim(parameter.default, _default),
        )
        for parameter in signature.parameters.values()
    ]
    returns = inspect.Signature.empty if inspect.isclass(target) else signature.return_annotation
    return (
        f"{name}{signature.replace(parameters=parameters, return_annotation=_verbatim(returns, _annotation))}"
    )


def _returns(function: Any) -> str:
    return _signature(function, "").partition(")")[2]


class _Verbatim:
    """Stands in a signature for an annotation or a default, so that it is printed as we write it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _verbatim(value: object, write: Callable[[object], str]) -> object:
    return value if value is inspect.Parameter.empty else _Verbatim(write(value))


def _annotation(annotation: object) -> str:
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, type):
        return annotation.__name__
    return str(annotation).replace("typing.", "")


def _default(value: object) -> str:
    if value is ...:
        return "..."
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__name__
    return re.sub(r" (?:object )?at 0x[0-9a-f]+", "", repr(value))


if __name__ == "__main__":
    main()
