"""What people write on the command line of ``perdure get``, read into values; as ``perdure.cli.values``."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from perdure.cli.get.redact import shown
from perdure.errors import ConfigError

__all__ = [
    "Checksum",
    "name_from",
    "read_checksum",
    "read_header",
    "read_key",
    "read_method",
    "read_sha256",
    "read_url",
]

METHODS = ("GET", "HEAD", "PUT", "DELETE", "POST")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {
    "accept-encoding": "what is saved are the bytes as the server keeps them",
    "connection": "connections are perdure's business",
    "content-length": "it is counted",
    "if-range": "perdure resumes by itself",
    "range": "perdure resumes by itself",
    "transfer-encoding": "how a body travels is settled per connection",
}
_SIZES = {
    "md5": 32,
    "sha1": 40,
    "sha224": 56,
    "sha256": 64,
    "sha384": 96,
    "sha512": 128,
    "sha3_256": 64,
    "sha3_512": 128,
    "blake2b": 128,
    "blake2s": 64,
}


class Checksum(NamedTuple):
    """A digest that the content has to have; ``digest`` is hexadecimal in small letters. Immutable."""

    algorithm: str
    digest: str


def read_url(text: str, field: str) -> str:
    """An http or https URL with a host; what it may hold is not repeated where it could be a secret."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{field} must be an http or https URL, got {shown(text)!r}") from None
    if parts.scheme.lower() not in ("http", "https"):
        got = f"the scheme {parts.scheme!r}" if parts.scheme else repr(shown(text))
        raise ConfigError(
            f"{field} must be an http or https URL, such as https://example.com/file, got {got}"
        )
    labels = (parts.hostname or "").removesuffix(".").split(".")
    if (
        port == 0
        or not all(0 < len(one) < 64 for one in labels)
        or any(ord(one) <= 32 or ord(one) == 127 for one in text)
    ):
        raise ConfigError(f"{field} must be a URL with a host and without blanks, got {shown(text)!r}")
    return text


def read_method(text: str, field: str) -> str:
    """One of the methods, in any case."""
    if text.upper() not in METHODS:
        raise ConfigError(f"{field} must be one of {', '.join(METHODS)}, got {text!r}")
    return text.upper()


def read_header(text: str, field: str) -> tuple[str, str]:
    """A header as ``Name: value``; line breaks and names that perdure sets itself are refused."""
    name, colon, value = text.partition(":")
    value = value.strip(" \t")
    if not colon or not _TOKEN.fullmatch(name):
        raise ConfigError(
            f"{field} must be a header such as 'Accept: text/csv', got {name + colon!r} at its start"
        )
    if name.lower() in _OURS:
        raise ConfigError(f"{field} must not be {name}: {_OURS[name.lower()]}")
    if any(ord(one) == 127 or (ord(one) < 32 and one != "\t") or ord(one) > 255 for one in value):
        raise ConfigError(f"{field} {name} must have a value of printable Latin-1 characters on one line")
    return name, value


def read_key(text: str, field: str) -> str:
    """An idempotency key: visible ASCII characters, at most 255."""
    if not 1 <= len(text) <= 255 or not all(32 < ord(one) < 127 for one in text):
        raise ConfigError(f"{field} must be 1 to 255 visible ASCII characters, got {text!r}")
    return text


def read_sha256(text: str, field: str) -> Checksum:
    """A SHA-256 digest in hexadecimal."""
    return _checksum("sha256", text, field)


def read_checksum(text: str, field: str) -> Checksum:
    """A digest with its algorithm: ``sha512:...``."""
    algorithm, colon, digest = text.partition(":")
    name = algorithm.strip().lower().replace("-", "_")
    name = name.replace("sha_", "sha", 1)
    if not colon or name not in _SIZES:
        raise ConfigError(
            f"{field} must be ALGORITHM:HEX with one of {', '.join(_SIZES)}, such as sha512:9b71..., got {text!r}"
        )
    return _checksum(name, digest, field)


def _checksum(name: str, text: str, field: str) -> Checksum:
    digest = text.strip().lower()
    if len(digest) != _SIZES[name] or set(digest) - set("0123456789abcdef"):
        raise ConfigError(f"{field} must be {_SIZES[name]} hexadecimal digits for {name}, got {text!r}")
    return Checksum(name, digest)


def name_from(url: str) -> str | None:
    """The file name that a URL ends in, safe in any folder; None where it has none."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    unsafe = name in ("", ".", "..", "-") or any(one in "/\\:" or not one.isprintable() for one in name)
    return None if unsafe or len(name.encode("utf-8", "replace")) > 240 else name
