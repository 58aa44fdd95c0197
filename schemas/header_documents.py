"""The headers of each record as JSON Schemas. Every header is UTF-8 text; these describe that text."""

from typing import Any

from schemas.headers import ERROR_PREFIX, MAX_ID_CHARS, MAX_TRACE_CHARS, REQUEST_TYPE, RESULT_SOURCE, RESULT_TYPE
from schemas.precision import PRECISIONS
from schemas.records import BYTES, CONTENT_TYPES, JSON, Stage
from schemas.shadow_records import SHADOW_TYPE

Schema = dict[str, Any]

_WHOLE_NUMBER = r"^-?\d+$"
_CONTENT_TYPE = r"^\s*(" + "|".join(CONTENT_TYPES).replace(".", r"\.") + r")\s*(;.*)?$"


def _text(description: str, **rules: Any) -> Schema:
    return {"type": "string", "description": description, **rules}


def _number(description: str) -> Schema:
    return _text(description, pattern=_WHOLE_NUMBER)


def request_headers() -> Schema:
    """What a request may carry. All of it has defaults; any other header is passed through."""
    return {
        "title": "RequestHeaders",
        "description": "Headers of a request: CloudEvents 1.0 in Kafka's binary mode. None is required.",
        "type": "object",
        "properties": {
            "ce_specversion": _text("1.0 or a later 1.x.", pattern=r"^1(\.\d{1,4})?$", default="1.0"),
            "ce_id": _text("The request's id; topic-partition-offset by default.", maxLength=MAX_ID_CHARS),
            "ce_source": _text("Who sent it."),
            "ce_type": _text("What kind of event it is.", default=REQUEST_TYPE),
            "ce_time": _text("When it happened (RFC 3339).", format="date-time"),
            "ce_sequence": _text("The number of this request in its stream.", pattern=r"^\d+$"),
            "ce_deadline": _text(
                "Epoch milliseconds after which an answer is of no use: it is then answered as expired.",
                pattern=r"^\d{1,15}$",
            ),
            "ce_dataref": False,
            "content-type": _text(
                f"What the value is; told from its first bytes by default, {BYTES} when they tell nothing.",
                pattern=_CONTENT_TYPE,
                examples=list(CONTENT_TYPES),
            ),
            "traceparent": _text("W3C trace context; it is copied to the result.", maxLength=MAX_TRACE_CHARS),
        },
    }


def result_headers() -> Schema:
    """What a result always carries, then what it carries when that is known: precision and trace context."""
    properties = {
        "ce_specversion": {"const": "1.0"},
        "ce_id": _text("The id of the request."),
        "ce_source": {"const": RESULT_SOURCE.decode()},
        "ce_type": {"const": RESULT_TYPE.decode()},
        "content-type": {"const": JSON},
        "modelname": _text("The model that answered."),
        "modelversion": _text("The version of it that answered."),
        "modelepoch": _number("The epoch of the switch that made this version answer; 0 for a fixed version."),
    }
    return {
        "title": "ResultHeaders",
        "description": "Headers of a result.",
        "type": "object",
        "properties": {
            **properties,
            "modelprecision": _text("What that version computes in.", enum=list(PRECISIONS)),
            "traceparent": _text("W3C trace context of the request."),
        },
        "required": list(properties),
    }


def shadow_headers() -> Schema:
    """What a comparison carries: the headers of the active answer's result, and which version is compared with it."""
    result = result_headers()
    properties = {
        **result["properties"],
        "ce_type": {"const": SHADOW_TYPE.decode()},
        "shadowversion": _text("The version that ran for nobody."),
    }
    return {
        "title": "ShadowHeaders",
        "description": "Headers of a comparison of a shadow version with the active answer.",
        "type": "object",
        "properties": properties,
        "required": [*result["required"], "shadowversion"],
    }


def dead_letter_headers() -> Schema:
    """What a dead letter adds to the headers of its request, which come first and as they were."""
    facts = {
        "id": _text("The id of the request."),
        "topic": _text("The request's topic."),
        "partition": _number("The request's partition."),
        "offset": _number("The request's offset."),
        "timestamp": _number("When the request was appended, in epoch milliseconds."),
        "group": _text("The group of the worker."),
        "stage": _text("Where on the data path it was refused.", enum=[stage.value for stage in Stage]),
        "code": _text("Why, as a stable code."),
        "class": _text("Why, as the name of an error class."),
        "message": _text("Why, in words, without any content of the request.", maxLength=1000),
        "attempts": _number("How often it was tried."),
        "model": _text("The model; empty when the request met none."),
        "version": _text("Its version; empty when the request met none."),
        "epoch": _number("The epoch of the switch that made this version answer."),
        "worker": _text("The member that refused it."),
        "time": _number("When, in epoch milliseconds."),
        "payload-omitted": _text("1 when the value was too large to travel again and was left out.", enum=["0", "1"]),
    }
    properties = {ERROR_PREFIX + name: schema for name, schema in facts.items()}
    return {
        "title": "DeadLetterHeaders",
        "description": "Headers that a dead letter adds to those of its request. Key and value are the request's own.",
        "type": "object",
        "properties": {
            **properties,
            ERROR_PREFIX + "precision": _text("What that version computes in, if it was met.", enum=list(PRECISIONS)),
        },
        "required": list(properties),
    }
