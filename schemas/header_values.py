"""Values of headers as text and numbers, each with an error that names the header."""

from schemas.errors import EnvelopeError


def read_text(name: str, value: bytes | None) -> str:
    """Return the text of a header, empty when it has none. Raises EnvelopeError."""
    if value is None:
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EnvelopeError(f"header {name}: {value[:40]!r} is not UTF-8 text") from None


def read_short_text(name: str, value: bytes | None, limit: int) -> str:
    """The same, of at most `limit` characters."""
    text = read_text(name, value)
    if len(text) > limit:
        raise EnvelopeError(f"header {name}: {len(text)} characters; at most {limit} are allowed")
    return text


def write_text(name: str, text: str, limit: int) -> bytes:
    """Return a text of at most `limit` characters as the value of a header. Raises EnvelopeError."""
    try:
        value = text.encode()
    except UnicodeEncodeError:
        raise EnvelopeError(f"header {name}: {text[:40]!r} cannot be written as UTF-8") from None
    read_short_text(name, value, limit)
    return value


def read_integer(name: str, value: bytes | None) -> int:
    """Return the whole number that a header holds. Raises EnvelopeError."""
    text = read_text(name, value)
    try:
        return int(text)
    except ValueError:
        raise EnvelopeError(f"header {name}: {text[:40]!r} is not a whole number") from None
