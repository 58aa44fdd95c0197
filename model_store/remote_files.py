"""The fsspec door: objects below one URL, read within bounds, written whole, with every backend's errors translated."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from schemas.errors import (
    ConfigurationError,
    PipelineError,
    UnavailableError,
    UnsafeFileError,
    VersionExistsError,
    VersionNotFoundError,
    scrub,
)

_BLOCK_BYTES = 8 << 20


class RemoteFiles:
    """Keys are made of checked names and digests, joined by `/`. Connects on first use; not for several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: tuple[Any, str] | None = None

    def read(self, key: str, max_bytes: int) -> bytes:
        """Read a small object. Raises VersionNotFoundError, UnsafeFileError above `max_bytes`, UnavailableError."""
        with self._translated(key):
            fs, path = self._locate(key)
            size = fs.size(path) or 0
            # A bounded read all the same: the object may have grown. An empty one has no range that could be asked for.
            data: bytes = fs.cat_file(path, start=0, end=max_bytes + 1) if 0 < size <= max_bytes else b""
        if size > max_bytes or len(data) > max_bytes:
            raise UnsafeFileError(f"{self.url}/{key} is larger than {max_bytes} bytes")
        return data

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading, from its beginning to its end. Raises as :meth:`read`."""
        with self._translated(key):
            fs, path = self._locate(key)
            file = fs.open(path, "rb", block_size=_BLOCK_BYTES)
        return cast("BinaryIO", _RemoteReader(self, key, file))

    def exists(self, key: str) -> bool:
        """Whether there is such an object now."""
        with self._translated(key):
            fs, path = self._locate(key)
            return bool(fs.exists(path))

    def list_names(self, key: str) -> list[str]:
        """Return the names one level below a key, sorted; none when there is no such level."""
        with self._translated(key):
            fs, path = self._locate(key)
            try:
                return sorted({str(found).rstrip("/").rpartition("/")[2] for found in fs.ls(path, detail=False)})
            except (FileNotFoundError, NotADirectoryError):
                return []

    def modified_at(self, key: str) -> float | None:
        """When an object was written, in epoch seconds; None when it is gone or the backend does not say."""
        with self._translated(key):
            fs, path = self._locate(key)
            try:
                return float(fs.modified(path).timestamp())
            except (FileNotFoundError, NotImplementedError):
                return None

    def upload(self, source: Path, key: str) -> None:
        """Write an object from a local file."""
        with self._translated(key):
            fs, path = self._locate(key)
            self._with_parent(fs, path, lambda: fs.put_file(str(source), path))

    def write(self, key: str, data: bytes) -> None:
        """Write a small object, in place of the one before."""
        with self._translated(key):
            fs, path = self._locate(key)
            self._with_parent(fs, path, lambda: fs.pipe_file(path, data))

    def write_once(self, key: str, data: bytes) -> None:
        """Write a small object that must not be there. Raises VersionExistsError.

        Atomic where the backend can create an object only if it is absent (S3, local files, memory). Elsewhere the last
        of two writers at the very same moment wins, and reading it back tells the other.
        """
        with self._translated(key):
            fs, path = self._locate(key)
            if fs.exists(path):
                raise VersionExistsError(f"{self.url}/{key} is there already")
            try:
                self._with_parent(fs, path, lambda: fs.pipe_file(path, data, mode="create"))
            except FileExistsError:
                raise VersionExistsError(f"{self.url}/{key} is there already") from None
            except (NotImplementedError, TypeError, ValueError):  # a backend that knows no such mode
                self._with_parent(fs, path, lambda: fs.pipe_file(path, data))
            if fs.cat_file(path) != data:
                raise VersionExistsError(f"{self.url}/{key} was written by somebody else at the same moment")

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        with self._translated(key):
            fs, path = self._locate(key)
            if fs.exists(path):
                fs.rm_file(path)

    def _locate(self, key: str) -> tuple[Any, str]:
        if self._opened is None:
            self._opened = _open_filesystem(self.url)
        fs, root = self._opened
        fs.invalidate_cache()  # what other hosts wrote a moment ago counts
        return fs, f"{root.rstrip('/')}/{key}" if key else root

    @staticmethod
    def _with_parent(fs: Any, path: str, write: Any) -> None:
        """Write, and make the folder above where the backend has folders. Never a bucket: that would be a surprise."""
        try:
            write()
        except FileNotFoundError:
            if not hasattr(fs, "auto_mkdir"):
                raise
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            write()

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except PipelineError:
            raise
        except FileNotFoundError:
            raise VersionNotFoundError(f"{key} is not in {self.url}") from None
        except Exception as error:  # noqa: BLE001 - each backend raises classes of its own, which are not ours to import
            raise UnavailableError(f"{self.url}: {type(error).__name__}: {scrub(str(error), limit=300)}") from None


class _RemoteReader(io.RawIOBase):
    def __init__(self, files: RemoteFiles, key: str, file: Any) -> None:
        self._files = files
        self._key = key
        self._file = file

    def read(self, size: int = -1) -> bytes:
        with self._files._translated(self._key):  # noqa: SLF001 - one module
            return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _open_filesystem(url: str) -> tuple[Any, str]:
    import fsspec  # noqa: PLC0415 - a store in a folder needs none of it

    try:
        fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        raise ConfigurationError(f"store.root {url}: {scrub(str(error), limit=300)}") from None
    except ValueError as error:
        raise ConfigurationError(f"store.root {url}: no store of this kind: {scrub(str(error), limit=300)}") from None
    return fs, str(path)
