"""The answer of the demo's image classifier: its likeliest classes, likeliest first."""

import msgspec


class _Guess(msgspec.Struct):
    label: str
    probability: float


def top_label(output: msgspec.Raw | None) -> tuple[str, float]:
    """Return the likeliest label of an answer and its probability; an empty label when the answer has no such form."""
    if output is None:
        return "", 0.0
    try:
        guesses = msgspec.json.decode(output, type=list[_Guess])
    except msgspec.MsgspecError:
        return "", 0.0
    return (guesses[0].label, guesses[0].probability) if guesses else ("", 0.0)
