"""Every message between the processes of one worker. Tagged and typed: a decoder refuses what is not one of these."""

from typing import TypeVar

import msgspec

from stream_workers.batching.work import ServedVersion
from stream_workers.links.framing import FrameError


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages. Field order is the wire format: both ends are always of one build."""


# -- supervisor to model process ---------------------------------------------------------------------------------------


class LoadOrder(Message, frozen=True, tag="load"):
    """What to load and how to run it; the input ring's descriptor comes along. Holds no secret."""

    version: ServedVersion
    store_root: str
    cache_dir: str
    cache_bytes: int
    classes: dict[str, str]
    device: str
    threads: int
    non_finite: str
    limits: bytes
    """The limits group of the settings as JSON."""
    max_batch_size: int
    slots: int
    slot_bytes: int
    size_buckets: list[int] = []
    """Rising batch sizes that the module is run with; empty for any size."""
    compile: bool = False
    """Compile the module for each of these sizes before it counts as loaded."""
    decode_threads: int = 0
    """Threads that preprocess single records, while another batch runs; 0 for one batch after the other."""
    require_signature: bool = False
    """Load only what one of the keys signed."""
    trusted_keys: dict[str, str] = {}
    """Key id to public key, base64."""
    is_shadow: bool = False
    """It will answer nobody: whenever something else wants the cores, it gets next to nothing of them."""


class OpenSession(Message, frozen=True, tag="session"):
    """A member wants to be served; the data socket's descriptor comes along. Ends the session before it."""


# -- model process to supervisor ---------------------------------------------------------------------------------------


class Loaded(Message, frozen=True, tag="loaded"):
    """The version is loaded, verified and warm. `warmed` counts the records of the warm-up."""

    load_seconds: float
    warmed: int


class LoadFailed(Message, frozen=True, tag="load_failed"):
    """The version cannot be loaded. With `permanent`, trying again would change nothing."""

    error_class: str
    message: str
    permanent: bool


# -- supervisor to member ----------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello"):
    """The first message to a member: who it is, and the whole settings, secrets included."""

    slot: str
    slot_number: int
    settings: bytes
    serving: ServedVersion | None = None
    """What the slot's model processes serve already: a member that replaces another need not ask Redis first."""
    declared: "Serve | None" = None
    """What the member before it wanted last, which holds until this one says something else."""


class Attach(Message, frozen=True, tag="attach"):
    """A loaded model process to use; descriptors of its data socket and its input ring come along."""

    instance: int
    version: ServedVersion
    slots: int
    slot_bytes: int


class Detach(Message, frozen=True, tag="detach"):
    """A model process has ended, and why: `code` as in :class:`stream_workers.pipeline.contract.BatchLost`."""

    instance: int
    code: str
    detail: str


class ResidentSet(Message, frozen=True):
    """The loaded model processes of one version. `is_whole`: as many as are to serve it."""

    version: str
    instances: list[int]
    is_whole: bool
    is_shadow: bool = False
    """Meets copies of requests and nothing else."""


class Preparation(Message, frozen=True):
    """How far the candidate of this id is: ready, or refused for a reason, or neither yet."""

    id: str
    is_ready: bool = False
    refusal: str = ""


class Residents(Message, frozen=True, tag="residents"):
    """All that is loaded, whole: an instance that is not named is on its way out and gets no new batch."""

    active: ServedVersion | None
    """The main version that was asked for, once it is loaded; until then the one before."""
    sets: list[ResidentSet]
    preparation: Preparation | None = None
    failed: dict[str, str] = {}
    """Versions that are wanted and cannot be loaded, with the reason."""
    shadow_wait: str = ""
    """Why the shadow that was asked for is neither loaded nor being loaded."""


class Refused(Message, frozen=True, tag="refused"):
    """A version that is wanted could not be loaded; what served before goes on."""

    version: ServedVersion
    reason: str


# -- member to supervisor ----------------------------------------------------------------------------------------------


class Candidate(Message, frozen=True):
    """Versions that are to be made ready beside those that serve; `id` names this preparation."""

    id: str
    versions: list[str]


class Serve(Message, frozen=True, tag="serve"):
    """What the member wants from now on, whole. Saying the same again changes nothing."""

    wanted: list[ServedVersion]
    """Versions that must be able to take batches, the main one first; each once."""
    candidate: Candidate | None = None
    shadow: str | None = None
    """A version to run for nobody, as long as there is room beside the others."""


class Release(Message, frozen=True, tag="release"):
    """The instance has no batch in hand and will get no more: end it."""

    instance: int


class KillInstance(Message, frozen=True, tag="kill"):
    """The instance makes no progress: kill it and name `code` as the reason."""

    instance: int
    code: str


class Status(Message, frozen=True, tag="status"):
    """How the member is: sent twice a second from its main loop."""

    ready: bool
    reasons: list[str]
    metrics: str
    """Prometheus text."""


# -- member to model process -------------------------------------------------------------------------------------------


class Run(Message, frozen=True, tag="run"):
    """Run the records in `slot`, which lie there one after the other. A list of one stands for all records alike."""

    batch_id: int
    slot: int
    isolated: bool
    lengths: list[int]
    content_types: list[str]
    keys: list[bytes | None]
    request_ids: list[str]
    priority: int = 0
    """Orders that wait are run by priority, 0 first, then as they came."""
    most_passed_over: int = 0
    """An order before which so many later ones have gone is the next."""
    deadlines_ms: list[int] = []
    """Epoch milliseconds by record, 0 for none; empty when no record has one."""


# -- model process to member -------------------------------------------------------------------------------------------


class Ready(Message, frozen=True, tag="ready"):
    """The first message of a session: nothing of an earlier session is read or sent any more."""

    version: ServedVersion
    answer_identity: bytes = b""
    """See :mod:`stream_workers.pipeline.answer_identity`."""
    precision: str = ""
    """What the manifest of the loaded version says it computes in."""


class Fault(Message, frozen=True):
    """One record that was refused."""

    index: int
    stage: str
    code: str
    error_class: str
    message: str


EXPIRED_CODE = "expired"
"""The code of a fault that is none: the record's deadline had passed when its batch began, so it was not run."""


class Done(Message, frozen=True, tag="done"):
    """A batch ran. Outputs lie one after the other in `outputs`; a refused record has length 0 and a fault."""

    batch_id: int
    lengths: list[int]
    faults: list[Fault]
    model_ms: float
    outputs: bytes
    stages_ms: list[float] = []
    """Preprocess and collate; copy and forward; postprocess and JSON. Empty when they were not measured."""
    padded: int = 0
    """Rows that the model computed for nobody, to fill a size bucket."""


class RecordDone(Message, frozen=True, tag="record"):
    """Isolated mode: the next record's answer, or its fault."""

    batch_id: int
    index: int
    output: bytes
    fault: Fault | None


class Raised(Message, frozen=True, tag="raised"):
    """A batch failed as a whole."""

    batch_id: int
    stage: str
    error_class: str
    message: str


DESCRIPTORS: dict[type[Message], int] = {LoadOrder: 1, OpenSession: 1, Attach: 2}
"""How many file descriptors come along with a message of a control channel; none when not listed."""

MessageType = TypeVar("MessageType")

ToModel = LoadOrder | OpenSession
FromModel = Loaded | LoadFailed
ToMember = Hello | Attach | Detach | Residents | Refused
FromMember = Serve | Release | KillInstance | Status
Outcome = Ready | Done | RecordDone | Raised

_ENCODER = msgspec.msgpack.Encoder()

to_model_decoder = msgspec.msgpack.Decoder(ToModel)
from_model_decoder = msgspec.msgpack.Decoder(FromModel)
to_member_decoder = msgspec.msgpack.Decoder(ToMember)
from_member_decoder = msgspec.msgpack.Decoder(FromMember)
run_decoder = msgspec.msgpack.Decoder(Run)
outcome_decoder = msgspec.msgpack.Decoder(Outcome)


def encode(message: Message) -> bytes:
    """Return the message as msgpack."""
    return _ENCODER.encode(message)


def decode(decoder: msgspec.msgpack.Decoder[MessageType], body: bytes) -> MessageType:
    """Return the message in a frame. Raises FrameError when it is none that this end expects."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"not a message of this link: {error}") from None
