"""What the worker counts, and by which labels."""

from schemas.records import ErrorDetail, Stage
from stream_workers.batching.work import Batch, Expired, Rejected, ReleaseReason
from stream_workers.kafka.settlement import Commit
from stream_workers.metrics import WorkerMetrics, new_registry
from stream_workers.pipeline.contract import BatchAnswered
from tests.unit.stream_workers.builders import TIMINGS, VERSION, answered, item


def lines(metrics: WorkerMetrics, name: str) -> set[str]:
    return {line for line in metrics.exposition().splitlines() if line.startswith(name)}


def test_outcomes_are_counted_by_kind_and_lane() -> None:
    metrics = WorkerMetrics(new_registry())
    late, bad = item(1, priority=1), item(2)
    late.outcome = Expired(VERSION, TIMINGS)
    bad.outcome = Rejected(ErrorDetail(stage=Stage.MODEL, code="model_failure", error_class="E", message=""), VERSION)
    metrics.delivery.note_commit(Commit([answered(item(0)), late, bad], {}, 0.01, 0.002), 2.0)
    assert lines(metrics, "headrace_outcomes_total") == {
        'headrace_outcomes_total{kind="ok",lane="0"} 1.0',
        'headrace_outcomes_total{kind="expired",lane="1"} 1.0',
        'headrace_outcomes_total{kind="dead_letter",lane="0"} 1.0',
    }
    assert lines(metrics, "headrace_dead_letters_total") == {'headrace_dead_letters_total{code="model_failure"} 1.0'}
    assert 'headrace_latency_seconds_count{lane="1"} 1.0' in metrics.exposition()
    assert "headrace_produce_seconds_sum 0.002" in metrics.exposition()


def test_a_batch_tells_why_it_left_how_full_it_was_and_what_was_padding() -> None:
    metrics = WorkerMetrics(new_registry())
    batch = Batch(1, [item(0, cost=1.0), item(1, cost=3.0)], ReleaseReason.COST, VERSION, priority=1)
    metrics.batching.note_batch(batch, 0.5)
    metrics.batching.note_answered(BatchAnswered(batch, [], VERSION, 30.0, (10.0, 15.0, 5.0), padded=3))
    text = metrics.exposition()
    for line in (
        'headrace_batches_total{lane="1",reason="cost"} 1.0',
        'headrace_queue_wait_seconds_sum{lane="1"} 0.5',
        "headrace_batch_size_sum 2.0",
        "headrace_batch_cost_total 4.0",
        "headrace_padded_batch_cost_total 6.0",
        "headrace_padded_records_total 3.0",
        'headrace_stage_seconds_sum{part="forward"} 0.015',
        "headrace_model_seconds_sum 0.03",
    ):
        assert line in text, line


def test_the_oldest_of_a_lane_that_has_emptied_is_of_no_age() -> None:
    metrics = WorkerMetrics(new_registry())
    metrics.batching.note_waiting(1, 2, {1: 3.0}, 10.0)
    assert lines(metrics, "headrace_oldest_queued_seconds") == {'headrace_oldest_queued_seconds{lane="1"} 7.0'}
    metrics.batching.note_waiting(0, 0, {}, 11.0)
    assert lines(metrics, "headrace_oldest_queued_seconds") == {'headrace_oldest_queued_seconds{lane="1"} 0.0'}


def test_one_version_is_active_at_a_time() -> None:
    metrics = WorkerMetrics(new_registry())
    metrics.member.note_version("v1", 1)
    metrics.member.note_version("v2", 2)
    assert lines(metrics, "headrace_active_version") == {'headrace_active_version{version="v2"} 1.0'}
    assert "headrace_pointer_epoch 2.0" in metrics.exposition()
