"""Every setting, in one frozen tree: one YAML file plus `HEADRACE_*` variables, which win over the file.

`HEADRACE_KAFKA__BOOTSTRAP=host:9092` sets `kafka.bootstrap`; `HEADRACE_CONFIG` names the file. Unknown names are
refused in both places.
"""

import enum
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.names import check_name

ENV_PREFIX = "HEADRACE_"
CONFIG_VARIABLE = "HEADRACE_CONFIG"

TopicName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
CostName = Annotated[str, StringConstraints(pattern=r"^(|bytes|pixels|tokens|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
MIB = 1 << 20
_ENVELOPE_BYTES = 8192


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class SecurityProtocol(enum.StrEnum):
    """How a client talks to the brokers."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class KafkaSettings(_Group):
    """Where Kafka is and how to be let in."""

    bootstrap: str = Field("127.0.0.1:9092", min_length=1)
    """Comma-separated host:port list."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """How to talk to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """With a SASL protocol: how to prove who we are."""
    sasl_username: str = ""
    """With a SASL protocol: who we are."""
    sasl_password: SecretStr = SecretStr("")
    """With a SASL protocol: the password. Better given as a variable than in a file."""
    ssl_ca_file: Path | None = None
    """Certificates of the authorities that may vouch for the brokers; the system's when not given."""
    ssl_certificate_file: Path | None = None
    """Our certificate, where brokers ask for one."""
    ssl_key_file: Path | None = None
    """The key of our certificate."""
    ssl_key_password: SecretStr = SecretStr("")
    """The password of that key."""
    request_timeout_ms: int = Field(10_000, ge=1000, le=300_000)
    """How long one request to a broker may take."""

    @model_validator(mode="after")
    def _complete_sasl(self) -> "KafkaSettings":
        if self.security_protocol.startswith("SASL") and not self.sasl_username:
            raise ValueError("sasl_username is needed with a SASL security_protocol")
        return self


class RedisSettings(_Group):
    """The control plane: the active-version timeline lives here. An empty url switches it off."""

    url: SecretStr = SecretStr("")
    """redis://[user:password@]host:port/db or rediss:// for TLS. A secret, since it may carry a password."""
    prefix: str = Field("headrace", pattern=r"^[a-z0-9_-]{1,40}$")
    """Every key in Redis begins with it."""
    timeout_seconds: float = Field(2.0, gt=0, le=60)
    """How long one call to Redis may take."""
    poll_seconds: float = Field(1.0, ge=0.1, le=60)
    """How often the pointer is read. Pushes are hints; this read decides."""


class TopicSettings(_Group):
    """The topics of one pipeline."""

    requests: tuple[TopicName, ...] = Field(("headrace.requests",), min_length=1)
    """Where requests are read."""
    results: TopicName = "headrace.results"
    """Where answers are written."""
    dead_letters: TopicName = "headrace.dead-letters"
    """Where refused requests are written."""

    priorities: dict[TopicName, Annotated[int, Field(ge=0, le=9)]] = Field(default_factory=dict)
    """Priority of request topics, 0 the highest. Topics of one priority are one lane; one not named here has 0."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """The priorities in use, most urgent first."""
        return tuple(sorted({self.priorities.get(topic, 0) for topic in self.requests}))

    @property
    def least_urgent(self) -> str:
        """Where bulk work goes: the topic of the lowest priority, the last of several."""
        return max(reversed(self.requests), key=lambda topic: self.priorities.get(topic, 0))

    @model_validator(mode="after")
    def _known_priorities(self) -> "TopicSettings":
        unknown = sorted(set(self.priorities) - set(self.requests))
        if unknown:
            raise ValueError(f"priorities names {unknown[0]}, which is not one of requests: {', '.join(self.requests)}")
        if self.lanes[0] != 0:
            raise ValueError(f"priorities: the most urgent topic has {self.lanes[0]}; the highest priority in use is 0")
        return self

    @model_validator(mode="after")
    def _no_loop(self) -> "TopicSettings":
        outputs = {self.results, self.dead_letters}
        if len(outputs) != 2 or outputs & set(self.requests) or len(set(self.requests)) != len(self.requests):
            raise ValueError("requests, results and dead_letters must all be different topics: anything else is a loop")
        return self


class StoreSettings(_Group):
    """Where model versions are kept and cached."""

    root: Path = Path("models")
    """The store: one folder per version. Relative to the configuration file that names it."""
    cache_dir: Path | None = None
    """Local cache of verified files; the user's cache folder when not given."""
    cache_bytes: int = Field(10 << 30, ge=MIB)
    """Bound of the local cache; what was used longest ago goes first."""


class ModelSettings(_Group):
    """Which model a worker serves and with how much of the machine."""

    name: str = "model"
    """Which model of the store is served."""
    version: str | None = None
    """A fixed version. When not given, the pointer in Redis says which."""
    classes: dict[str, ImportPath] = Field(default_factory=dict)
    """Registered class name to `package.module:Class`. The only place that maps stored data to code."""
    device: str = Field("cpu", pattern=r"^(cpu|cuda(:\d{1,3})?)$")
    """Where the model runs: `cpu`, `cuda` or `cuda:N`."""
    instances: int | None = Field(None, ge=1, le=256)
    """Replicas of the model per member; by default the cores divided among the members."""
    threads: int = Field(1, ge=1, le=512)
    """Intra-op threads of one instance."""
    decode_threads: int | None = Field(None, ge=0, le=256)
    """Threads per instance that call `preprocess` while another batch runs; default 0 on the CPU, 2 on CUDA."""
    compile: bool = False
    """Compile the module for every size bucket at load: needs a C++ compiler and minutes of load_timeout_seconds."""
    load_timeout_seconds: float = Field(120.0, gt=0)
    """A version that takes longer to load and warm up is refused."""
    batch_timeout_seconds: float = Field(60.0, gt=0)
    """A model process without progress for this long is killed and its batch taken apart."""
    non_finite_outputs: Literal["reject", "allow"] = "reject"
    """What becomes of an answer with NaN or infinity: a dead letter, or null and marked."""

    @field_validator("name", "version")
    @classmethod
    def _safe_name(cls, value: str | None) -> str | None:
        return value if value is None else check_name("model name or version", value)


class BatchingSettings(_Group):
    """When a batch is released."""

    max_batch_size: int = Field(16, ge=1, le=65_536)
    """Most records in one batch."""
    size_buckets: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] | None = None
    """Batches are padded to the next of these sizes; default powers of two with compile or CUDA. [] switches it off."""
    max_wait_ms: Annotated[float, Field(ge=0, le=60_000)] | Literal["auto"] = 10.0
    """Counted from the first record of the batch. Only ever a wait: no request fails because of it. `auto` decides it
    from the load: nothing waits while models are idle and few records come, see docs/decisions/0013."""
    max_batch_bytes: int = Field(32 * MIB, ge=64 * 1024, le=1 << 31)
    """Most payload bytes in one batch; also the size of one input slot in shared memory."""
    slots: int = Field(2, ge=1, le=16)
    """Batches that one model instance may hold: one that runs, the others ready."""
    urgent_batch_size: int | None = Field(None, ge=1, le=65_536)
    """With several lanes: most records in a batch of the most urgent one; a quarter of max_batch_size by default."""
    lowest_share: float = Field(0.1, gt=0, le=0.5)
    """With several lanes: the share of batches that each lane keeps while more urgent ones always have work."""
    cost: CostName = ""
    """What a record costs: `bytes`, `pixels`, `tokens` (bytes of text by four) or `package.module:function`."""
    max_batch_cost: float | None = Field(None, gt=0)
    """Most cost in one batch; a single record that costs more is a batch of its own. Needs cost."""
    length_buckets: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Rising bounds of cost: only records between the same two meet in a batch, so little is padded. Needs cost."""
    overload: Literal["queue", "drop_oldest"] = "queue"
    """`drop_oldest` is for live streams: when more waits than models can take, only the newest of a key is run."""

    @model_validator(mode="after")
    def _sized(self) -> "BatchingSettings":
        sizes = list(self.size_buckets or ())
        if sizes != sorted(set(sizes)) or (sizes and sizes[-1] > self.max_batch_size):
            raise ValueError(f"size_buckets {sizes} must rise, up to max_batch_size ({self.max_batch_size}) at most")
        return self

    @model_validator(mode="after")
    def _priced(self) -> "BatchingSettings":
        if not self.cost and (self.max_batch_cost is not None or self.length_buckets):
            raise ValueError("max_batch_cost and length_buckets need cost, which says what a record costs")
        if list(self.length_buckets) != sorted(set(self.length_buckets)):
            raise ValueError(f"length_buckets {list(self.length_buckets)} must rise from each bound to the next")
        return self

    @field_validator("max_wait_ms", mode="before")
    @classmethod
    def _known_wait(cls, value: object) -> object:
        """One error that names both forms, where the union would give one for each."""
        if value == "auto":
            return value
        try:
            milliseconds = float(str(value))
        except ValueError:
            milliseconds = -1.0
        if not 0 <= milliseconds <= 60_000:
            raise ValueError("must be `auto`, or a number from 0 to 60000")
        return milliseconds


class CacheSettings(_Group):
    """Answers to requests that were answered before. For model classes that declare `cacheable`; off by default."""

    enabled: bool = False
    """Give an answer again when content type and bytes of a request are the same and the model is, too."""
    local_bytes: int = Field(64 * MIB, ge=MIB)
    """Answers that one member keeps in memory; what was used longest ago goes first."""
    max_output_bytes: int = Field(64 * 1024, ge=64, le=16 * MIB)
    """Larger answers are not kept."""
    min_hit_rate: float = Field(0.05, ge=0, le=1)
    """While fewer lookups than this find something, only a sixteenth of the contents is looked up. 0: never mind."""
    redis: bool = False
    """Keep answers in Redis (redis.url) too, for other members and after a restart."""
    redis_wait_ms: float = Field(5.0, ge=0, le=1000)
    """How long a record waits for an answer from Redis before it goes to the model."""
    ttl_seconds: int = Field(3600, ge=1, le=30 * 86_400)
    """How long Redis keeps an answer."""
    namespace: str = Field("", pattern=r"^[a-z0-9_-]{0,40}$")
    """Part of every key in Redis. Change it when code that a model class imports from elsewhere has changed."""


class LimitSettings(_Group):
    """Checked before anything of that size is allocated."""

    payload_bytes: int = Field(8 * MIB, ge=1, le=1 << 30)
    """Largest payload of a request."""
    key_bytes: int = Field(64 * 1024, ge=1, le=16 * MIB)
    """Largest key of a request."""
    header_bytes: int = Field(64 * 1024, ge=1, le=MIB)
    """Most bytes of all headers of a request together."""
    pixels: int = Field(25_000_000, ge=1)
    """Most pixels of an image, known from its header."""
    elements: int = Field(50_000_000, ge=1)
    """Most elements of a tensor, known from its header."""
    json_depth: int = Field(64, ge=1, le=500)
    """Deepest nesting of a JSON payload."""
    result_bytes: int = Field(900 * 1024, ge=1024, le=1 << 30)
    """Largest result or dead letter value; must fit `max.message.bytes` of those topics."""

    @property
    def outcome_bytes(self) -> int:
        """The most that a result or dead letter takes as a whole, with key, headers and framing."""
        return self.result_bytes + max(self.key_bytes, self.header_bytes) + _ENVELOPE_BYTES


class Delivery(enum.StrEnum):
    """What a kill may cost."""

    EXACTLY_ONCE = "exactly_once"
    """Results, dead letters and offsets in one transaction: read_committed readers see each outcome once."""
    AT_LEAST_ONCE = "at_least_once"
    """Offsets are committed after delivery: a kill may repeat outcomes, never lose one."""


class WorkerSettings(_Group):
    """One `headrace worker`: a supervisor, its group members and their model processes."""

    group: str = Field("headrace", pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """The consumer group; with the slot it is also the transactional id."""
    name: str = Field("worker", pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """Must differ between hosts of one group: with the slot number it is the member's identity."""
    members: int = Field(1, ge=1, le=64)
    """Group members of this worker, each with its own model processes."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    """What a kill may cost."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a partition begins that has no committed offset."""
    commit_interval_ms: int = Field(100, ge=1, le=10_000)
    """Outcomes become visible at the latest after this, and sooner while a model is idle: what keeps commits cheap."""
    session_timeout_ms: int = Field(6000, ge=1000, le=300_000)
    """A member that is silent for so long loses its partitions."""
    max_poll_interval_ms: int = Field(60_000, ge=2000)
    """A member whose loop does not poll for so long loses its partitions."""
    transaction_timeout_ms: int = Field(10_000, ge=1000, le=900_000)
    """The broker aborts a transaction that is open for longer."""
    drain_seconds: float = Field(10.0, gt=0)
    """Longest wait for work in flight when partitions are taken away or on SIGTERM."""
    queue_bytes: int = Field(64 * MIB, ge=MIB)
    """Request bytes held by one member before it pauses its partitions."""
    start_timeout_seconds: float = Field(60.0, gt=0)
    """How long to wait for Kafka, Redis and topics at start before giving up."""
    max_restarts: int = Field(10, ge=1)
    """Restarts of one slot inside a minute after which the worker gives up with a non-zero exit."""
    warm_spare: bool = True
    """Keep one spare member process per worker (about 60 MB), so that a killed member is replaced at once."""
    state_dir: Path | None = None
    """Slot leases and the last known version; the user's state folder when not given."""

    @model_validator(mode="after")
    def _bounded_drain(self) -> "WorkerSettings":
        if self.session_timeout_ms >= self.max_poll_interval_ms:
            raise ValueError(
                f"session_timeout_ms ({self.session_timeout_ms}) must be below max_poll_interval_ms"
                f" ({self.max_poll_interval_ms})"
            )
        if self.drain_seconds * 1000 > 0.2 * self.max_poll_interval_ms:
            raise ValueError(
                f"drain_seconds ({self.drain_seconds}) must be at most a fifth of max_poll_interval_ms"
                f" ({self.max_poll_interval_ms} ms): a longer drain could cost the membership"
            )
        return self


class HealthSettings(_Group):
    """The HTTP endpoint with /live, /ready and /metrics."""

    host: str = "127.0.0.1"
    """Address to listen on; anything wider than loopback is logged as a warning."""
    port: int = Field(9464, ge=0, le=65_535)
    """0 picks a free port, which is logged."""


class LogSettings(_Group):
    """How a process speaks."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""
    format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, JSON lines elsewhere."""


class Settings(BaseSettings):
    """The whole tree. Built by :func:`schemas.configuration.load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", protected_namespaces=()
    )

    kafka: KafkaSettings = KafkaSettings()
    redis: RedisSettings = RedisSettings()
    topics: TopicSettings = TopicSettings()
    store: StoreSettings = StoreSettings()
    model: ModelSettings = ModelSettings()
    batching: BatchingSettings = BatchingSettings()
    cache: CacheSettings = CacheSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerSettings = WorkerSettings()
    health: HealthSettings = HealthSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if self.limits.payload_bytes > self.batching.max_batch_bytes:
            raise ValueError(
                f"limits.payload_bytes ({self.limits.payload_bytes}) must not exceed batching.max_batch_bytes"
                f" ({self.batching.max_batch_bytes}): such a record could never enter a batch"
            )
        self._check_cache()
        if self.limits.payload_bytes > self.worker.queue_bytes:
            raise ValueError(
                f"limits.payload_bytes ({self.limits.payload_bytes}) must not exceed worker.queue_bytes"
                f" ({self.worker.queue_bytes}): such a record could never be queued"
            )
        return self

    def _check_cache(self) -> None:
        if self.cache.enabled and self.cache.redis and not self.redis.url.get_secret_value():
            raise ValueError("cache.redis needs redis.url, which is not set")
        if self.cache.enabled and self.cache.max_output_bytes > self.limits.result_bytes:
            raise ValueError(
                f"cache.max_output_bytes ({self.cache.max_output_bytes}) must not exceed limits.result_bytes"
                f" ({self.limits.result_bytes}): no answer is that large"
            )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


URGENT_SLOTS = 2
"""With several lanes, the slots of a model instance that only the most urgent lane may take: while an urgent batch runs
another can wait in front of all others, and none ever waits behind more than the one that runs."""


def urgent_slots(settings: Settings) -> int:
    """Slots of each model instance that are kept for urgent batches, beside `batching.slots`."""
    return URGENT_SLOTS if len(settings.topics.lanes) > 1 else 0


def instances_per_member(settings: Settings) -> int:
    """Replicas of the model in one member: as given, or the cores divided among members and intra-op threads."""
    if settings.model.instances is not None:
        return settings.model.instances
    return max(1, cores() // (settings.worker.members * settings.model.threads))
