"""Settings of how records meet a model: the model, its batches and its cache. Part of :mod:`schemas.settings`."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from schemas.errors import UnsafeNameError
from schemas.names import check_name
from schemas.settings_group import MIB, SettingsGroup

ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
CostName = Annotated[str, StringConstraints(pattern=r"^(|bytes|pixels|tokens|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]


class ModelSettings(SettingsGroup):
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
    load_memory_bytes: int | None = Field(None, ge=MIB)
    """A load whose process takes more resident memory is refused; code and mapped weights count. Default: no bound."""
    keep_warm_seconds: float = Field(600.0, ge=0)
    """A version that serves no more stays loaded for this long, so that going back to it takes no load."""
    batch_timeout_seconds: float = Field(60.0, gt=0)
    """A model process without progress for this long is killed and its batch taken apart."""
    non_finite_outputs: Literal["reject", "allow"] = "reject"
    """What becomes of an answer with NaN or infinity: a dead letter, or null and marked."""

    @field_validator("name", "version")
    @classmethod
    def _safe_name(cls, value: str | None) -> str | None:
        try:
            return value if value is None else check_name("name", value)
        except UnsafeNameError as error:
            raise ValueError(str(error)) from None


class BatchingSettings(SettingsGroup):
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
    bulk_batch_size: int | None = Field(None, ge=1, le=65_536)
    """With several lanes: most records in a batch of any other. It is what an urgent record waits for while models are
    busy; half of max_batch_size by default."""
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


class CacheSettings(SettingsGroup):
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
