"""The one pattern for names that end up in a path, a key or a topic."""

import re

from schemas.errors import UnsafeNameError

NAME_PATTERN = r"^[a-z0-9](?:[a-z0-9_-]|\.(?!\.)){0,63}\Z"
_NAME = re.compile(NAME_PATTERN)


def check_name(kind: str, value: object) -> str:
    """Return `value` when it is a safe name; raise UnsafeNameError that says which `kind` of name it is otherwise.

    Safe: 1 to 64 of a-z, 0-9, dot, dash and underscore, starting with a letter or digit, no two dots in a row. Nothing
    is ever decoded or normalised first.
    """
    if not isinstance(value, str) or not _NAME.match(value):
        shown = repr(value)[:80]
        raise UnsafeNameError(
            f"{kind} {shown}: allowed are 1 to 64 of a-z, 0-9, '.', '-', '_', starting with a letter or digit, no '..'"
        )
    return value
