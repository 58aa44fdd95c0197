"""A folder of images, in the order of their names."""

from pathlib import Path

from producers.payloads import image_file_payload
from producers.sources.item import Item, ItemError, Source
from schemas.errors import ConfigurationError, InvalidInputError

_SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png"})


def list_images(folder: Path) -> list[Path]:
    """List the image files below a folder, sorted. Raises ConfigurationError when there is none."""
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder")
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    if not found:
        raise ConfigurationError(f"{folder} holds no image: {', '.join(sorted(_SUFFIXES))} are looked for")
    return found


def read_images(folder: Path, *, limit_bytes: int) -> Source:
    """Yield each file untouched; its name below the folder is the label. A file that is no image is an ItemError."""
    for sequence, path in enumerate(list_images(folder)):
        label = path.relative_to(folder).as_posix()
        try:
            payload, content_type = image_file_payload(path, limit=limit_bytes)
        except InvalidInputError as error:
            yield ItemError(sequence, label, str(error))
        else:
            yield Item(sequence, payload, content_type, label)
