from benchmarks.contestants.acknowledged import Progress


def test_only_the_prefix_that_is_acknowledged_is_committed():
    first, second = [10, 2], [20, 1]
    progress = Progress()
    progress.pending.extend([first, second])

    second[1] = 0
    assert not progress.advance()

    first[1] = 0
    assert progress.advance()
    assert progress.committable == 20
    assert not progress.pending


def test_what_was_committed_once_is_not_committed_again():
    progress = Progress()
    progress.pending.append([10, 0])

    assert progress.advance()
    assert not progress.advance()
