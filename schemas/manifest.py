"""What a model version is: data only. Nothing in a manifest can choose which code runs or leave its own directory."""

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    field_validator,
    model_validator,
)

from schemas.golden import GoldenSample
from schemas.names import check_name
from schemas.precision import LayerPrecision, Precision, check_base, check_plan, check_ranges

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "manifest.sig"
WEIGHTS_FILE = "weights.safetensors"
MAX_MANIFEST_BYTES = 1 << 20


class FileEntry(BaseModel):
    """One file of a version: its name inside the directory, size in bytes and SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    size: int = Field(ge=0)
    sha256: Sha256

    @field_validator("name")
    @classmethod
    def _safe_name(cls, value: str) -> str:
        return check_name("file name", value)


class ModelManifest(BaseModel):
    """One immutable model version.

    `model_class` is a *registered* name: the worker's own settings map it to an import path. `files` lists every file
    of the version but the manifest and its signature; another file that is not listed makes the version invalid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    format: Literal[1] = 1
    name: Name
    version: Name
    model_class: Name
    files: tuple[FileEntry, ...] = Field(max_length=64)
    labels: tuple[str, ...] = Field(default=(), max_length=100_000)
    precision: Precision = "fp32"
    """Of every layer that the plan does not name; `mixed` is fp32 with a plan."""
    precision_plan: Annotated[dict[str, LayerPrecision], BeforeValidator(check_plan)] = Field(default_factory=dict)
    """Module path -> precision of everything below it; the longest path wins."""
    activation_ranges: Annotated[dict[str, tuple[float, float]], BeforeValidator(check_ranges)] = Field(
        default_factory=dict
    )
    """Module path of each int8 layer -> lowest and highest input it is quantised for, found before publishing."""
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Passed to the model class as they are: plain JSON values."""
    golden: GoldenSample | None = None
    """A sample and its answer, checked before the version may serve."""
    created_at: str = Field(default="", max_length=40)
    description: str = Field(default="", max_length=2000)

    @field_validator("name", "version", "model_class")
    @classmethod
    def _safe_names(cls, value: str) -> str:
        return check_name("name", value)

    @field_validator("files")
    @classmethod
    def _distinct_files(cls, value: tuple[FileEntry, ...]) -> tuple[FileEntry, ...]:
        names = [entry.name for entry in value]
        if len(set(names)) != len(names):
            raise ValueError("a file is listed twice")
        for reserved in {MANIFEST_FILE, SIGNATURE_FILE} & set(names):
            raise ValueError(f"{reserved} is not listed: it is what vouches for the files that are")
        return value

    @model_validator(mode="after")
    def _consistent_precision(self) -> Self:
        check_base(self.precision, self.precision_plan)
        return self
