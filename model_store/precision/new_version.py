"""A proposal becomes a version of its own; the one that was measured is only read."""

from pathlib import Path

from model_store.precision.report import Report, describe
from model_store.publishing import VersionDraft, publish_file
from model_store.version_store import StoredVersion, VersionStore
from schemas.errors import ConfigurationError, ManifestError

_MAX_DESCRIPTION = 2000


def publish_proposal(
    store: VersionStore, source: StoredVersion, weights: Path, version: str, report: Report
) -> StoredVersion:
    """Publish the proposal with the source's weights, byte for byte, and the plan in its manifest (record 0017).

    `weights` is the source's weights file on this host.

    Raises ConfigurationError when there is no proposal or it is beyond the budget, and as `publish_file`.
    """
    proposal = report.proposal
    if proposal is None or not proposal.keeps(report.budget):
        raise ConfigurationError(
            f"--publish {version}: no plan within the budget of {report.budget:g} was proposed: nothing published"
        )
    old = source.manifest
    sentence = f"from {source.version}, {describe(proposal, report)}"
    text = f"{old.description}; {sentence}" if old.description else sentence
    draft = VersionDraft(
        name=source.name,
        version=version,
        model_class=old.model_class,
        labels=old.labels,
        options=old.options,
        description=text[:_MAX_DESCRIPTION],
        precision=proposal.plan,
    )
    return publish_file(store, draft, weights)


def check_measurable(source: StoredVersion) -> None:
    """Raises ManifestError unless the version is float32: agreement with less would mean nothing."""
    precision = source.manifest.precision
    if precision != "fp32":
        raise ManifestError(
            f"{source.name}/{source.version}: precision {precision}: measure the fp32 version that it was made from"
        )
