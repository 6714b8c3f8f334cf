"""Click's side of the options: reading them through ``values``, and help in sections."""

from __future__ import annotations

import click
from click.core import ParameterSource

from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    TextType = click.ParamType[Any]
else:
    TextType = click.ParamType  # not generic before click 8.3

__all__ = ["Bad", "Reads", "Section", "SectionedCommand", "written_as"]


class Bad(click.UsageError):
    """An option that cannot be; its message is complete and names field, range and value."""

    complete = True


class Reads(TextType):
    """A type of option whose text is read by a function ``read(text, field)``."""

    def __init__(self, name: str, read: Callable[[str, str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the text; the error names the option, or the variable that the text came from."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value, written_as(param, ctx))
        except ConfigError as error:
            raise Bad(str(error), ctx) from None

    def split_envvar_value(self, rv: str) -> list[str]:
        """A variable holds one value, blanks and all."""
        return [rv]


def written_as(param: click.Parameter | None, ctx: click.Context | None) -> str:
    """What the user wrote the value as: ``--attempts``, or ``PERDURE_ATTEMPTS``."""
    if param is None:
        return "value"
    from_env = (
        ctx is not None and param.name and ctx.get_parameter_source(param.name) is ParameterSource.ENVIRONMENT
    )
    if from_env and isinstance(param.envvar, str):
        return param.envvar
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name


class Section(click.Option):
    """An option shown under a heading of its own in the help."""

    def __init__(self, *args: Any, section: str, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists its options by section."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; errors that come without a context get the one they belong to."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One table per section, in the order of the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                name = param.section if isinstance(param, Section) else "Other"
                sections.setdefault(name, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)
