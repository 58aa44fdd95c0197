"""Which layer runs in which precision: the plan of a version, resolved against the modules that it really has."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from schemas.errors import ManifestError
from schemas.manifest import ModelManifest
from schemas.precision import LayerPrecision, Precision


@dataclass(frozen=True)
class PrecisionPlan:
    """A base precision, the layers that differ from it, and the input ranges of those that run in int8.

    A path stands for everything below it and the longest path wins. int8 is a property of single layers with a weight:
    all else below an int8 path keeps the floating-point precision around it.
    """

    base: Precision = "fp32"
    layers: Mapping[str, LayerPrecision] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Layer -> lowest and highest input, in the units of the layer's own input."""

    @classmethod
    def of(cls, manifest: ModelManifest) -> "PrecisionPlan":
        """The plan that a manifest states."""
        return cls(manifest.precision, dict(manifest.precision_plan), dict(manifest.activation_ranges))

    @property
    def root(self) -> LayerPrecision:
        """Floating-point precision of what no path names."""
        return "fp32" if self.base in ("mixed", "int8") else self.base  # type: ignore[return-value]  # the rest is

    @property
    def changes_nothing(self) -> bool:
        """True when every layer runs in fp32."""
        return self.root == "fp32" and self.base != "int8" and set(self.layers.values()) <= {"fp32"}

    def used(self) -> list[LayerPrecision]:
        """The precisions other than fp32 that a host must be able to run, sorted."""
        named: set[LayerPrecision] = {self.root, *self.layers.values()}
        if self.base == "int8":
            named.add("int8")
        return sorted(named - {"fp32"})

    def float_precision(self, path: str) -> LayerPrecision:
        """The floating-point precision around a module: its own, when it does not run in int8."""
        for ancestor in _ancestors(path):
            if self.layers.get(ancestor, "int8") != "int8":
                return self.layers[ancestor]
        return self.root

    def is_int8(self, path: str) -> bool:
        """Whether a layer with a weight runs in int8."""
        for ancestor in _ancestors(path):
            if ancestor in self.layers:
                return self.layers[ancestor] == "int8"
        return self.base == "int8"

    def check_layers(self, known: Collection[str]) -> None:
        """Raises ManifestError naming a path, and its value, that no module of the network has."""
        for path, precision in self.layers.items():
            if path not in known:
                raise ManifestError(f"precision_plan.{path}: {precision}: the network has no module of that path")
        for path in self.ranges:
            if path not in known:
                raise ManifestError(f"activation_ranges.{path}: the network has no module of that path")


FP32 = PrecisionPlan()


def int8_layers(plan: PrecisionPlan, quantisable: Iterable[str]) -> list[str]:
    """The layers that run in int8, in the order given.

    Raises ManifestError when a plan names int8 where no layer can be quantised, or a layer has no range: ranges are
    found when a version is published, never guessed when it is loaded.
    """
    candidates = list(quantisable)
    chosen = [path for path in candidates if plan.is_int8(path)]
    for named, precision in plan.layers.items():
        if precision == "int8" and not any(_is_within(path, named) for path in candidates):
            raise ManifestError(f"precision_plan.{named}: int8: nothing in it can be quantised (Conv2d or Linear)")
    for path in chosen:
        if path not in plan.ranges:
            raise ManifestError(f"activation_ranges.{path} is missing: the layer is to run in int8")
    return chosen


def _ancestors(path: str) -> Iterator[str]:
    """The path itself and everything above it, longest first; not the root."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _is_within(path: str, ancestor: str) -> bool:
    return path == ancestor or path.startswith(f"{ancestor}.")
