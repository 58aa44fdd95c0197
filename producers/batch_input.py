"""The input of a batch job: a folder of images or a file of rows, with a fingerprint that tells when it changed."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from producers.sources.images import list_images, read_images
from producers.sources.item import Source
from producers.sources.rows import RowOptions, count_rows, read_rows
from schemas.errors import ConfigurationError

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class BatchInput:
    """One input. Reading it twice yields the same items in the same order, as long as the fingerprint is the same."""

    path: Path
    options: RowOptions

    def count(self) -> int:
        """Count the rows. Raises ConfigurationError when the input cannot be read or has no such columns."""
        if not self.path.is_dir():
            return count_rows(self.path, self.options)
        column = self.options.id_column or self.options.payload_column
        if column is not None:
            raise ConfigurationError(f"batch input {self.path}: no column {column}; a folder of images has none")
        return len(list_images(self.path))

    def read(self) -> Source:
        """Yield the rows; `sequence` is the row number."""
        if self.path.is_dir():
            return read_images(self.path, limit_bytes=self.options.limit_bytes)
        return read_rows(self.path, self.options)

    def fingerprint(self) -> str:
        """Digest what the rows depend on: the bytes of a file, or names, sizes and times of a folder's images."""
        digest = hashlib.sha256(f"{self.options.id_column}\0{self.options.payload_column}\0".encode())
        try:
            if self.path.is_dir():
                for image in list_images(self.path):
                    status = image.stat()
                    name = image.relative_to(self.path).as_posix()
                    digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
            else:
                with self.path.open("rb") as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        digest.update(chunk)
        except OSError as error:
            raise ConfigurationError(f"batch input {self.path}: {error.strerror}") from None
        return digest.hexdigest()
