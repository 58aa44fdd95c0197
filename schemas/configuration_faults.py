"""What is wrong with settings, in words: the place, the key, the value and what is allowed. No secret in it."""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from schemas.settings import ENV_PREFIX, Settings

_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_MAX_SHOWN_CHARS = 80


def find_variables(model: type[BaseModel], prefix: str, above: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Return every environment variable that sets something, in upper case, with the keys that it sets."""
    found = {}
    for name, field in model.model_fields.items():
        variable, keys = f"{prefix}{name}".upper(), (*above, name)
        found[variable] = keys
        group = _group(field.annotation)
        if group is not None:
            found |= find_variables(group, f"{variable}__", keys)
    return found


def holds_json(keys: Sequence[str]) -> bool:
    """Whether the variable of these keys holds JSON: a list, a mapping or a whole group."""
    annotation = _annotation(keys)
    return _group(annotation) is not None or bool(_shapes(annotation) & {tuple, list, dict})


def example_of(keys: Sequence[str]) -> str:
    """Show what the JSON of such a variable looks like."""
    return "a list, [...]" if _shapes(_annotation(keys)) & {tuple, list} else 'a mapping, {"key": ...}'


def explain(error: ValidationError, path: Path | None, environ: Mapping[str, str]) -> str:
    """Spell out each fault on a line of its own."""
    lines = []
    for item in error.errors(include_url=False):
        keys = [str(part) for part in item["loc"]]
        place, key = _find_place(keys, path, environ), ".".join(keys) or "(whole)"
        message = _CREDENTIALS.sub("//...@", item["msg"].removeprefix("Value error, "))
        if item["type"] == "extra_forbidden":
            lines.append(f"{place}: {key} is not a setting{_near(keys)}")
        else:
            shown = "" if not keys or isinstance(item["input"], dict) else f" (got {show(keys, item['input'])})"
            lines.append(f"{place}: {key}: {message}{shown}")
    return "\n".join(lines)


def show(keys: Sequence[str], value: object) -> str:
    """Show a value in an error, unless it is or may hold a secret."""
    if len(keys) < 2 or {"url", "password"} & set(keys[1].split("_")):
        return "a value that is not shown"
    return _CREDENTIALS.sub("//...@", repr(value))[:_MAX_SHOWN_CHARS]


def _find_place(keys: Sequence[str], path: Path | None, environ: Mapping[str, str]) -> str:
    """Name the variable that set the key; for a rule over a whole group, every place that had a say in it."""
    file = f"file {path}" if path else "settings"
    wanted = ENV_PREFIX + "__".join(keys[:2]).upper()
    names = {name.upper(): name for name in environ}
    if not keys:
        return file
    group = f"{ENV_PREFIX}{keys[0]}".upper()
    for variable in (wanted, group):
        if variable in names:
            return f"variable {names[variable]}"
    if len(keys) > 1:
        inner = sorted(names[name] for name in names if name.startswith(f"{wanted}__"))
        return f"variable {inner[0]}" if inner else file
    members = sorted(names[name] for name in names if name.startswith(f"{group}__"))
    return " and ".join([file, *(f"variable {name}" for name in members)])


def _near(keys: Sequence[str]) -> str:
    model = _group(_annotation(keys[:-1])) if len(keys) > 1 else Settings
    if model is None:
        return ""
    allowed = sorted(model.model_fields)
    near = difflib.get_close_matches(keys[-1], allowed, n=1)
    return f"; did you mean {near[0]}?" if near else f"; allowed here: {', '.join(allowed)}"


def _shapes(annotation: Any) -> set[Any]:
    """What a type is made of: `tuple` of `tuple[int, ...] | None`."""
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*(_shapes(one) for one in get_args(annotation)))
    return {get_origin(annotation)}


def _annotation(keys: Sequence[str]) -> Any:
    annotation: Any = Settings
    for key in keys:
        model = _group(annotation)
        if model is None or key not in model.model_fields:
            return None
        annotation = model.model_fields[key].annotation
    return annotation


def _group(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
