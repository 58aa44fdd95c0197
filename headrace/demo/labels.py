"""The answer of an image classifier: its best label."""

import msgspec


class _Guess(msgspec.Struct):
    label: str = ""
    probability: float = 0.0


class _Classification(msgspec.Struct):
    label: str = ""
    probability: float = 0.0
    top: list[_Guess] = []


def top_label(output: msgspec.Raw | None) -> tuple[str, float]:
    """Return the best label of a classifier's output and its probability; an empty label when there is none.

    The output names it either directly or as the first of its `top` guesses.
    """
    if output is None:
        return "", 0.0
    try:
        answer = msgspec.json.decode(output, type=_Classification)
    except msgspec.MsgspecError:
        return "", 0.0
    if answer.label or not answer.top:
        return answer.label, answer.probability
    return answer.top[0].label, answer.top[0].probability
