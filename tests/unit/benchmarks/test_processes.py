from pathlib import Path

from benchmarks.contestants.catalogue import CONTESTANTS
from benchmarks.runner.processes import build_commands, read_last_words

PYTHON, SETTINGS = Path("/env/bin/python"), Path("/run/settings.yaml")


def build(name):
    return build_commands(CONTESTANTS[name], PYTHON, SETTINGS)


def test_headrace_runs_by_its_own_command():
    assert build("headrace") == [["/env/bin/python", "-m", "headrace", "worker", "--config", "/run/settings.yaml"]]


def test_a_tuned_loop_runs_once_per_core():
    commands = build("loop-per-core")

    assert len(commands) == CONTESTANTS["loop-per-core"].processes
    assert set(map(tuple, commands)) == {("/env/bin/python", "-m", "benchmarks.contestants.loop")}


def test_a_limit_is_told_what_to_measure():
    assert build("model-alone")[0][-1] == "model"
    assert build("decode-and-model")[0][-1] == "decode"


def test_bytewax_processes_know_each_other():
    commands = build("bytewax-tuned")

    if len(commands) > 1:
        assert [command[command.index("-i") + 1] for command in commands] == [str(n) for n in range(len(commands))]
        assert len({command[-1] for command in commands}) == 1
        assert commands[0][-1].count(";") == len(commands) - 1


def test_the_last_words_of_a_process_are_its_last_line(tmp_path):
    log = tmp_path / "output.log"

    assert read_last_words(log) == "no output"
    log.write_text("first\nValueError: no\n\n")
    assert read_last_words(log) == "ValueError: no"
