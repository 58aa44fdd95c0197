"""`headrace precision`: measure what each layer loses in a smaller precision, propose a plan, publish it."""

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile
from headrace.cli.progress import show_progress
from headrace.cli.store_access import open_cache
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError
from schemas.precision import REDUCED_PRECISIONS, LayerPrecision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from model_store.payloads import Payload
    from model_store.precision.report import Report
    from model_store.version_store import StoredVersion, VersionStore
    from schemas.manifest import ModelManifest
    from schemas.settings import Settings


@dataclass(frozen=True)
class _Request:
    data: list[Path]
    limit: int
    budget: float
    accept_slower: bool


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("precision")(precision)


def precision(  # noqa: PLR0913 - one parameter per option
    model: Annotated[str, typer.Argument(help="MODEL or MODEL@VERSION; the version must be fp32.")],
    *,
    data: Annotated[list[Path], typer.Option(help="Folder of images, video, or rows (.jsonl, .npy, ...); repeatable.")],
    budget: Annotated[
        float, typer.Option(min=0, max=1, help="Largest share of changed top-1 answers, or relative error.")
    ] = 0.01,
    publish: Annotated[str | None, typer.Option(help="Publish the proposal as this new version.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything that was found.")] = None,
    precisions: Annotated[
        str | None, typer.Option(help="Like bf16,int8; all that this host runs if not given.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Samples, taken in turn from all data.")] = 512,
    even_if_slower: Annotated[
        bool, typer.Option("--even-if-slower", help="Also propose what is no faster than fp32 on this host.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Measure agreement and speed on sample inputs. The measured version never changes.

    Exits 1 when no plan within the budget is faster than fp32, 2 when version, data or host cannot do what was asked.
    """
    from model_store.precision.new_version import check_measurable, publish_proposal  # noqa: PLC0415 - quick --help
    from model_store.store_opening import open_store  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    store = open_store(settings.store)
    source = _find_version(store, model, settings)
    check_measurable(source)
    if publish is not None and store.contains(source.name, publish):
        raise ConfigurationError(f"--publish {publish}: {source.name}/{publish} is there already")
    request = _Request(data, limit, budget, even_if_slower)
    with open_cache(settings).fetch_weights(source) as weights:
        report = _measure(settings, source.manifest, weights.path, _chosen(precisions, settings), request)
        _answer(report, json_file)
        if publish is not None:
            made = publish_proposal(store, source, weights.path, publish, report)
            typer.echo(f"published {made.name} {made.version}: {made.manifest.description}")


def _answer(report: "Report", json_file: Path | None) -> None:
    """Show what was found. Exits when there is no proposal."""
    _show(report)
    if json_file is not None:
        _write(json_file, report)
    if report.proposal is None:
        raise typer.Exit(ExitCode.FAILED)


def _write(path: Path, report: "Report") -> None:
    try:
        path.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"--json {path}: {error.strerror}") from None


def _find_version(store: "VersionStore", model: str, settings: "Settings") -> "StoredVersion":
    from model_store.version_choice import choose_only_version  # noqa: PLC0415 - quick --help

    name, _, version = model.partition("@")
    if not version and name == settings.model.name:
        version = settings.model.version or ""
    if not version:
        version = choose_only_version(store, name)
    return store.verify(name, version)


def _chosen(text: str | None, settings: "Settings") -> list[LayerPrecision]:
    """The precisions to try. Raises ConfigurationError for one that is unknown or that this host cannot run."""
    from model_store.precision_torch import check_host, runnable_precisions  # noqa: PLC0415 - torch takes seconds

    device = settings.model.device
    if text is None:
        return runnable_precisions(device)
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name not in REDUCED_PRECISIONS:
            raise ConfigurationError(f"--precisions {name!r} is not one of {', '.join(REDUCED_PRECISIONS)}")
    chosen: list[LayerPrecision] = [known for known in REDUCED_PRECISIONS if known in wanted]
    check_host(chosen, device)
    return chosen


def _measure(
    settings: "Settings",
    manifest: "ModelManifest",
    weights: Path,
    precisions: list[LayerPrecision],
    request: _Request,
) -> "Report":
    from model_store.precision.samples import prepare_samples  # noqa: PLC0415 - quick --help
    from model_store.precision.survey import Survey, SurveyOptions  # noqa: PLC0415
    from model_store.precision.torch_laboratory import TorchLaboratory  # noqa: PLC0415
    from model_store.torch_loader import load_model  # noqa: PLC0415

    device = settings.model.device
    loaded = load_model(weights, manifest, settings.model.classes, device, threads=1)
    with show_progress() as progress:
        progress("reading samples")
        payloads = itertools.islice(_read(request.data, settings), request.limit)
        samples = prepare_samples(loaded.model, payloads, settings.batching.max_batch_size)
        options = SurveyOptions(precisions, request.budget, accept_slower=request.accept_slower)
        return Survey(TorchLaboratory(loaded, device), samples, options, progress).run()


def _read(data: list[Path], settings: "Settings") -> Iterator["Payload"]:
    """Samples of all sources in turn, so that a limit takes an equal part of each."""
    from model_store.payloads import Payload  # noqa: PLC0415 - quick --help
    from producers.sources.item import Item  # noqa: PLC0415
    from stream_workers.profiling.samples import open_samples  # noqa: PLC0415

    limits = settings.limits
    sources = [open_samples(path, limits) for path in data]
    while sources:
        for source in tuple(sources):
            entry = next(source, None)
            if entry is None:
                sources.remove(source)
            elif isinstance(entry, Item):
                yield Payload(entry.content_type, entry.payload, request_id=entry.label, limits=limits)
            elif entry.final or not entry.sequence:
                raise ConfigurationError(f"--data: {entry.label}: {entry.message}")
            else:
                typer.echo(f"left out {entry.label}: {entry.message}", err=True)


def _show(report: "Report") -> None:
    from rich.console import Console  # noqa: PLC0415 - quick --help

    from model_store.precision.report import describe  # noqa: PLC0415

    console = Console(width=None if os.isatty(1) else 120)
    console.print(_layer_table(report))
    console.print(_summary_table(report))
    for note in report.notes:
        typer.echo(f"note: {note}")
    if report.refused:
        typer.echo(f"note: {report.refused} samples were refused by the model's preprocess")
    typer.echo("weights file: the same bytes for every precision; only the manifest differs")
    for candidate in report.slower:
        typer.echo(f"note: {candidate.name} keeps the budget but is no faster than fp32 on this host")
    if report.proposal is None:
        typer.echo(f"no proposal: no plan within the budget of {report.budget:g} is faster than fp32")
    else:
        typer.echo(f"proposal: {describe(report.proposal, report)}")


def _layer_table(report: "Report") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - quick --help

    columns = ("layer", "as", "changed", "KL, nats", "relative error", "speed", "plan")
    table = Table(*columns, title="one at a time, fp32 elsewhere")
    plan = None if report.proposal is None else report.proposal.plan
    for finding in report.findings:
        in_plan = "fp32" if plan is None else plan.layers.get(finding.unit, plan.root)
        table.add_row(
            finding.unit,
            finding.precision,
            f"{finding.disagreement:.2%}",
            f"{finding.divergence:.2g}",
            f"{finding.relative_error:.2g}",
            "?" if finding.speedup is None else f"{finding.speedup:.2f}x",
            in_plan,
        )
    return table


def _summary_table(report: "Report") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - quick --help

    sizes = sorted({size for candidate in report.candidates for size in candidate.speedups or {}})
    table = Table(
        "precision",
        "top-1 agreement",
        "KL, nats",
        "relative error",
        "broken",
        "weights in memory",
        title=f"{report.records} records",
    )
    for size in sizes:
        table.add_column(f"speed, batch {size}")
    full = report.candidates[0].weight_bytes or 1
    for candidate in report.candidates:
        agreement = candidate.agreement
        if agreement is None:
            table.add_row(candidate.name, "cannot run", candidate.failure)
            continue
        table.add_row(
            candidate.name,
            f"{1 - agreement.disagreement:.2%}" if report.is_classifier else "",
            f"{agreement.divergence:.2g}" if report.is_classifier else "",
            f"{agreement.relative_error:.2g}",
            str(agreement.broken),
            f"{candidate.weight_bytes / 1e6:.1f} MB ({candidate.weight_bytes / full:.2f}x)",
            *(_speed(candidate.speedups or {}, candidate.spreads or {}, size) for size in sizes),
        )
    return table


def _speed(speedups: "Mapping[int, float]", spreads: "Mapping[int, tuple[float, float]]", size: int) -> str:
    low, high = spreads[size]
    return f"{speedups[size]:.2f}x ({low:.2f} to {high:.2f})"
