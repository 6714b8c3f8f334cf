"""Exception classes of database drivers: the real one where the driver is installed, else one of the same name."""

from __future__ import annotations

from importlib import import_module


def driver_class(path: str, *, base: type[Exception] = Exception) -> type[Exception]:
    """Give the class that `module.Name` says; one whose driver is not installed is stood in for."""
    module, _, name = path.rpartition(".")
    try:
        found: type[Exception] = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return type(name, (base,), {"__module__": module})
    assert f"{found.__module__}.{found.__qualname__}" == path, "the driver names its class otherwise"
    return found


def with_fields(exc: Exception, **fields: object) -> Exception:
    """The exception with attributes that its driver sets; where they are read-only, one of a subclass has them."""
    try:
        for name, value in fields.items():
            setattr(exc, name, value)
    except AttributeError:
        cls = type(exc)
        return type(cls.__name__, (cls,), {"__module__": cls.__module__, **fields})(*exc.args)
    return exc
