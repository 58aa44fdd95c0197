"""`headrace models canary`: take a version up by stages, and back as soon as its results are worse."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.canary_view import show_canary
from headrace.cli.exit_codes import ExitCode
from headrace.cli.interruption import ENDINGS, as_ctrl_c
from headrace.cli.model_access import open_control_plane, verify_versions
from headrace.cli.options import ConfigFile
from headrace.cli.switch_author import find_author, real_clock
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from model_store.canary.contract import CanaryOutcome
    from model_store.canary.plan import CanaryPlan
    from producers.result_reader import ResultReader
    from schemas.settings import Settings


def register(models: typer.Typer) -> None:
    """Add the command."""
    models.command("canary")(canary)


def canary(  # noqa: PLR0913 - one argument per option of the command
    name: Annotated[str, typer.Argument(help="The model's name.")],
    version: Annotated[str, typer.Argument(help="The version that is to take over.")],
    *,
    stages: Annotated[str, typer.Option(help="Its share in percent, stage by stage; the last is 100.")] = "1,10,50,100",
    window: Annotated[str, typer.Option(help="How long each stage is watched: 60s, 10m.")] = "60s",
    min_results: Annotated[int, typer.Option(help="Results of each version before anything is decided.")] = 200,
    max_error_rate_increase: Annotated[float, typer.Option(help="Allowed difference of the error rates.")] = 0.02,
    max_latency_ratio: Annotated[float, typer.Option(help="Allowed ratio of the 95th percentiles.")] = 1.5,
    quality: Annotated[
        str | None,
        typer.Option(help="A number in the answer: a field, or a JSON pointer like /0/score.", show_default=False),
    ] = None,
    max_quality_drop: Annotated[
        float | None, typer.Option(help="Allowed drop of its mean; default: 0.05.", show_default=False)
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, kept in the history: one line.")] = "",
    config: ConfigFile = None,
) -> None:
    """Give a version a growing share of the keys, and go on only while its results are no worse than those before.

    Workers prepare it once; each stage is an exact split. The last one, 100 %, is not watched: nothing is left to
    compare with, and `headrace models rollback` takes it back at once.

    Exits 0 when it answers alone, 1 when it was halted or had too little traffic, 3 when Redis or Kafka was away for
    longer than a window, 130 on Ctrl-C: then the version before is active again. A decision of somebody else in the
    middle ends it with 1 and stands.
    """
    from model_store.canary.canary import Canary  # noqa: PLC0415 - keeps --help instant
    from model_store.canary.observation import parse_field  # noqa: PLC0415
    from model_store.canary.plan import CanaryPlan, Thresholds, parse_stages, parse_window  # noqa: PLC0415

    if max_quality_drop is not None and quality is None:
        raise ConfigurationError("--max-quality-drop needs --quality, which says where the quality is")
    drop = Thresholds.max_quality_drop if max_quality_drop is None else max_quality_drop
    plan = CanaryPlan(
        version,
        parse_stages(stages),
        parse_window(window),
        Thresholds(min_results, max_error_rate_increase, max_latency_ratio, drop),
        None if quality is None else parse_field(quality),
    )
    author = find_author(reason)
    settings = load_settings(config, os.environ)
    verify_versions(settings, name, {version: 1})
    with (
        as_ctrl_c(*ENDINGS),
        open_control_plane(settings) as (live, workers),
        open_outcomes(settings) as outcomes,
        show_canary() as show,
    ):
        try:
            outcome = Canary(name, live, workers, outcomes, real_clock(), show).run(plan, author)
        except KeyboardInterrupt:
            typer.echo(f"headrace: interrupted; `headrace models active {name}` tells what answers now", err=True)
            raise
    _tell(name, plan, outcome)


def open_outcomes(settings: "Settings") -> "ResultReader":
    """A reader of the results and dead letters to come."""
    from producers.result_reader import ResultReader  # noqa: PLC0415 - keeps --help instant

    return ResultReader(settings.kafka, settings.topics.results, settings.topics.dead_letters)


def _tell(name: str, plan: "CanaryPlan", outcome: "CanaryOutcome") -> None:
    """Print the answer: the pointer on stdout when it is ours, everything else on stderr."""
    from model_store.canary.contract import CanaryResult  # noqa: PLC0415 - keeps --help instant
    from model_store.switch_contract import SwitchResult  # noqa: PLC0415
    from model_store.version_history import describe_split  # noqa: PLC0415

    result, entry = outcome.ending.result, outcome.entry
    if entry is not None:
        typer.echo(f"{name} {describe_split(entry.split)} epoch {entry.epoch}")
    if result is CanaryResult.PROMOTED:
        return
    if result is CanaryResult.OVERTAKEN:
        left = "what was decided stands"
    elif entry is None:
        left = "nothing has changed"
    else:
        left = f"back to {describe_split(entry.split)}"
        if outcome.confirmation is SwitchResult.UNCONFIRMED:
            left += ", which not every worker has confirmed yet"
    where = f"canary {plan.version} {result.value} at {outcome.share}%"
    typer.echo(f"headrace: {where}: {outcome.ending.reason}; {left}", err=True)
    codes = {CanaryResult.INTERRUPTED: ExitCode.INTERRUPTED, CanaryResult.UNREACHABLE: ExitCode.UNAVAILABLE}
    raise typer.Exit(codes.get(result, ExitCode.FAILED))
