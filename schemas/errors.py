"""The error tree, drawn along the data path.

::

    PipelineError
    ├── ConfigurationError            stop        settings, topics or paths that cannot work
    ├── UnavailableError              retry       Kafka, Redis or the store does not answer
    │   └── StartUpTimeoutError       stop        ... and did not until the start-up limit
    ├── InvalidRecordError            dead-letter the record itself is at fault
    │   ├── EnvelopeError             dead-letter headers, schema version, content type
    │   ├── PayloadTooLargeError      dead-letter a size, pixel or element limit, checked before allocation
    │   ├── InvalidInputError         dead-letter the payload cannot become a model input
    │   ├── InvalidOutputError        dead-letter the model's answer for this record cannot be sent
    │   └── UnreadableBatchError      dead-letter the record lies in a batch that cannot be unpacked
    ├── ModelFailureError             dead-letter the model raised, died or hung on this record alone
    ├── ModelStoreError               stop        a version is missing, altered, unsafe or half there
    │   ├── UnsafeNameError           stop
    │   ├── VersionNotFoundError      stop
    │   ├── VersionExistsError        stop
    │   ├── ManifestError             stop
    │   ├── ChecksumMismatchError     stop
    │   ├── UnsafeFileError           stop
    │   ├── CacheFullError            stop
    │   ├── GoldenSampleError         stop
    │   ├── SignatureError            stop        the manifest is not signed by a trusted key, and has to be
    │   │   ├── UnsignedVersionError  stop
    │   │   ├── UnknownKeyError       stop
    │   │   └── BadSignatureError     stop
    │   ├── UnsupportedProgramError   stop
    │   └── InvalidPointerError       stop
    ├── PointerConflictError          retry       someone else moved the active version first
    ├── PublishError                  stop        a request was not written; carries which and why
    ├── SettlementError               retry       a transaction did not commit; its outcomes are still held
    └── FencedError                   stop        this member was replaced: leave at once

Each class names its :class:`Disposition`; ``failure_policy`` reads it and nobody else decides.
"""

import enum
import re

MAX_MESSAGE_CHARS = 1000
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
# Control characters of both halves, and those that turn the direction of writing; tab and line feed are left.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Disposition(enum.Enum):
    """What must happen to the work that met an error."""

    RETRY = "retry"
    """Try the same work again: the cause lies outside the record."""
    DEAD_LETTER = "dead-letter"
    """Answer the record with a dead letter and go on."""
    STOP = "stop"
    """End the process: going on would be wrong or useless."""


class PipelineError(Exception):
    """Root of every error that Headrace raises on purpose."""

    disposition = Disposition.STOP
    code = "error"


class ConfigurationError(PipelineError):
    """A setting, topic or path that cannot work. The message names the key, the value and what is allowed."""

    code = "configuration"


class UnavailableError(PipelineError):
    """An outside system does not answer now."""

    disposition = Disposition.RETRY
    code = "unavailable"


class StartUpTimeoutError(UnavailableError):
    """An outside system did not answer until the start-up limit."""

    disposition = Disposition.STOP
    code = "start_up_timeout"


class InvalidRecordError(PipelineError):
    """The record itself is at fault; its neighbours are not."""

    disposition = Disposition.DEAD_LETTER
    code = "invalid_record"


class EnvelopeError(InvalidRecordError):
    """A header is malformed, or its schema version or content type is not known."""

    code = "envelope"


class PayloadTooLargeError(InvalidRecordError):
    """A limit on bytes, pixels or elements, found before anything of that size was allocated."""

    code = "too_large"


class InvalidInputError(InvalidRecordError):
    """The payload cannot become a model input. ``preprocess`` raises this for a record it refuses."""

    code = "invalid_input"


class InvalidOutputError(InvalidRecordError):
    """The model's answer for this record cannot be sent: not finite, not serialisable, or too large."""

    code = "invalid_output"


class UnreadableBatchError(InvalidRecordError):
    """The record lies in a batch that cannot be unpacked within the limits; it and its like are stepped over."""

    code = "unreadable_batch"


class ModelFailureError(PipelineError):
    """The model raised, died or ran for ever on this record alone."""

    disposition = Disposition.DEAD_LETTER
    code = "model_failure"


class ModelStoreError(PipelineError):
    """A model version cannot be used."""

    code = "model_store"


class UnsafeNameError(ModelStoreError):
    """A model, version or file name that could point outside the store."""

    code = "unsafe_name"


class VersionNotFoundError(ModelStoreError):
    """The store has no such version."""

    code = "version_not_found"


class VersionExistsError(ModelStoreError):
    """Versions are immutable, and this one is there already."""

    code = "version_exists"


class ManifestError(ModelStoreError):
    """A manifest that is malformed, or does not fit the model class or the files beside it."""

    code = "manifest"


class ChecksumMismatchError(ModelStoreError):
    """A file of a version is not the one its manifest names."""

    code = "checksum_mismatch"


class UnsafeFileError(ModelStoreError):
    """A file of a version that is a link, a device, a pickle or archive, or simply should not be there."""

    code = "unsafe_file"


class CacheFullError(ModelStoreError):
    """The local cache has no room for a file, even after dropping all that is not in use."""

    code = "cache_full"


class GoldenSampleError(ModelStoreError):
    """A version that was loaded does not give the answer to its golden sample that it was published with."""

    code = "golden_sample"


class SignatureError(ModelStoreError):
    """`store.require_signature` is set, and a version's manifest is not signed by a key in `store.trusted_keys`."""

    code = "signature"


class UnsignedVersionError(SignatureError):
    """The version has no signature. `headrace models sign` adds one."""

    code = "unsigned"


class UnknownKeyError(SignatureError):
    """The version is signed with a key that `store.trusted_keys` does not name."""

    code = "unknown_key"


class BadSignatureError(SignatureError):
    """The signature is not of this manifest by the key that it names: one of the three was altered or exchanged."""

    code = "bad_signature"


class UnsupportedProgramError(ModelStoreError):
    """An exported program with something in it that cannot be stored as data, or a stored one that is not sound."""

    code = "unsupported_program"


class InvalidPointerError(ModelStoreError):
    """A timeline, candidate or report in Redis is not one: wrong type, too large or malformed. What is known holds."""

    code = "invalid_pointer"


class PointerConflictError(PipelineError):
    """The active version moved since it was read: read again and decide again."""

    disposition = Disposition.RETRY
    code = "pointer_conflict"


class PublishError(PipelineError):
    """A request was not written. Nothing is retried behind the caller's back."""

    code = "publish"


class SettlementError(PipelineError):
    """A transaction did not commit; its outcomes are kept and sent again."""

    disposition = Disposition.RETRY
    code = "settlement"


class FencedError(PipelineError):
    """Another process took over this member's identity: leave at once, without writing anything more."""

    code = "fenced"


def scrub(text: str, *, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Make a foreign error text fit to travel: no memory address, no control character, at most `limit` characters.

    Memory addresses in decoder messages have been a step of real exploits, so none leaves the process.
    """
    text = _CONTROL.sub(" ", _ADDRESS.sub("0x…", text))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str) -> str:
    """Make foreign text fit for one line of a terminal: a control character could colour, move or hide the rest."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\n", " ").replace("\t", " "))
