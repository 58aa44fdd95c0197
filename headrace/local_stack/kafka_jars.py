"""The jars of Apache Kafka: fetched once, shared by all stacks, and checked against pinned digests at every start."""

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ChecksumMismatchError, ConfigurationError, UnavailableError, scrub

if TYPE_CHECKING:
    from jgo.maven import MavenContext

JAR_LIST = Path(__file__).with_name("kafka_jars.txt")
DOWNLOADS_AT_ONCE = 4
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class PinnedJar:
    """One jar by its Maven coordinate and the digest of its bytes."""

    group: str
    artefact: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """`group:artefact:version`."""
        return f"{self.group}:{self.artefact}:{self.version}"

    def path_in(self, cache_dir: Path) -> Path:
        """Where the jar lies in a cache that is laid out as a Maven repository."""
        folder = cache_dir.joinpath(*self.group.split("."), self.artefact, self.version)
        return folder / f"{self.artefact}-{self.version}.jar"


def read_pinned_jars() -> list[PinnedJar]:
    """The jars of the broker's class path, as they were pinned with this release."""
    lines = JAR_LIST.read_text(encoding="utf-8").splitlines()
    return [_parse_line(line) for line in lines if line and not line.startswith("#")]


def resolve_jars(cache_dir: Path, on_progress: Callable[[str], None]) -> list[Path]:
    """The paths of all jars, in class-path order; what is missing or damaged in the cache is fetched.

    Two processes may do this at once: one waits for the other. Progress is told for each jar that is fetched.

    :raises UnavailableError: a jar could not be fetched; the message names it.
    :raises ChecksumMismatchError: a fetched jar is not the pinned one.
    :raises ConfigurationError: the cache cannot be written, or is out of space.
    """
    jars = read_pinned_jars()
    try:
        with _locked(cache_dir):
            missing = [jar for jar in jars if not _is_intact(jar, cache_dir)]
            if missing:
                _fetch_all(missing, cache_dir, on_progress)
    except OSError as error:
        raise ConfigurationError(f"cannot use jar cache {cache_dir}: {error.strerror or error}") from error
    return [jar.path_in(cache_dir) for jar in jars]


def _parse_line(line: str) -> PinnedJar:
    coordinate, sha256 = line.split()
    group, artefact, version = coordinate.split(":")
    return PinnedJar(group, artefact, version, sha256)


@contextmanager
def _locked(cache_dir: Path) -> Iterator[None]:
    cache_dir.mkdir(parents=True, exist_ok=True)
    with (cache_dir / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_intact(jar: PinnedJar, cache_dir: Path) -> bool:
    path = jar.path_in(cache_dir)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def _fetch_all(jars: list[PinnedJar], cache_dir: Path, on_progress: Callable[[str], None]) -> None:
    from jgo.maven import MavenContext  # noqa: PLC0415 only hosts that run a broker have it

    context = MavenContext(repo_cache=cache_dir, local_repos=[], timeout=TIMEOUT_SECONDS)
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        try:
            fetched = pool.map(lambda jar: _fetch(jar, context, cache_dir), jars)
            for number, jar in enumerate(fetched, start=1):
                on_progress(f"fetching Apache Kafka: {number} of {len(jars)} jars, {jar.artefact} {jar.version}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(jar: PinnedJar, context: "MavenContext", cache_dir: Path) -> PinnedJar:
    from requests import RequestException  # noqa: PLC0415 comes with jgo

    path = jar.path_in(cache_dir)
    # The library takes any file at that path for the jar, also one that an interrupted download left there.
    path.unlink(missing_ok=True)
    try:
        context.project(jar.group, jar.artefact).at_version(jar.version).artifact().resolve()
    except (RequestException, RuntimeError) as error:
        path.unlink(missing_ok=True)
        raise UnavailableError(
            f"cannot fetch {jar.coordinate}, a jar of Apache Kafka: is the network reachable?"
            f" ({scrub(str(error), limit=300)})"
        ) from error
    if not _is_intact(jar, cache_dir):
        path.unlink(missing_ok=True)
        raise ChecksumMismatchError(f"the jar fetched for {jar.coordinate} is not the one that was pinned")
    return jar
