"""The contract as documents: JSON Schemas and an AsyncAPI description, made from the code that reads and writes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import ConfigurationError
from schemas.header_documents import Schema, dead_letter_headers, request_headers, result_headers, shadow_headers
from schemas.manifest import ModelManifest
from schemas.records import JSON, ResultBody
from schemas.settings import Settings, TopicSettings
from schemas.shadow_records import ShadowBody
from schemas.version_cuts import CutBody

CONTRACT_VERSION = "1.0.0"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KAFKA_BINDING = "0.5.0"
_COMPONENTS = "#/components/schemas/"


def build_documents() -> dict[str, Schema]:
    """Make every document, by file name."""
    return {
        "asyncapi.json": _asyncapi(),
        "request-headers.schema.json": _standalone("request-headers", request_headers()),
        "result-headers.schema.json": _standalone("result-headers", result_headers()),
        "result.schema.json": _standalone("result", msgspec.json.schema(ResultBody)),
        "version-cut.schema.json": _standalone("version-cut", msgspec.json.schema(CutBody)),
        "dead-letter-headers.schema.json": _standalone("dead-letter-headers", dead_letter_headers()),
        "shadow-headers.schema.json": _standalone("shadow-headers", shadow_headers()),
        "shadow.schema.json": _standalone("shadow", msgspec.json.schema(ShadowBody)),
        "model-manifest.schema.json": _standalone("model-manifest", ModelManifest.model_json_schema()),
        "settings.schema.json": _standalone("settings", Settings.model_json_schema()),
    }


def render_document(document: Mapping[str, Any]) -> bytes:
    """Spell a document as the bytes that are kept in its file."""
    return msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=2) + b"\n"


def write_documents(folder: Path) -> list[Path]:
    """Write every document into `folder`, making it when it is missing. Raises ConfigurationError."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in build_documents().items():
            (folder / name).write_bytes(render_document(document))
            written.append(folder / name)
    except OSError as error:
        raise ConfigurationError(f"contract documents in {folder}: {error.strerror}") from None
    return written


def _standalone(name: str, schema: Schema) -> Schema:
    return {"$schema": _DIALECT, "$id": f"urn:headrace:contract:{name}", **schema}


def _asyncapi() -> Schema:
    topics = TopicSettings()
    bodies = [ResultBody, CutBody, ShadowBody]
    _, components = msgspec.json.schema_components(bodies, ref_template=_COMPONENTS + "{name}")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace worker",
            "version": CONTRACT_VERSION,
            "description": (
                "Requests in; for each exactly one outcome: a result or a dead letter. Readers use read_committed."
                " Addresses are the default topic names."
            ),
        },
        "defaultContentType": JSON,
        "channels": {
            "requests": _channel(topics.requests[0], "request", "Requests, in order by key."),
            "results": _channel(topics.results, "result", "Answers, in order by key."),
            "deadLetters": _channel(topics.dead_letters, "deadLetter", "Requests that got no answer, and why."),
            "versionCuts": _channel(
                topics.control,
                "versionCut",
                "From which offset on a partition meets a switch. Compacted, one partition.",
            ),
            "shadow": _channel(
                topics.shadow, "comparison", "A shadow version's answers beside the active ones; some may be missing."
            ),
        },
        "operations": {
            "receiveRequests": _operation("receive", "requests", "request"),
            "sendResults": _operation("send", "results", "result"),
            "sendDeadLetters": _operation("send", "deadLetters", "deadLetter"),
            "sendVersionCuts": _operation("send", "versionCuts", "versionCut"),
            "receiveVersionCuts": _operation("receive", "versionCuts", "versionCut"),
            "sendComparisons": _operation("send", "shadow", "comparison"),
        },
        "components": {"messages": _messages(), "schemas": {**components, **_header_schemas()}},
    }


def _header_schemas() -> Schema:
    schemas = (request_headers(), result_headers(), dead_letter_headers(), shadow_headers())
    return {schema["title"]: schema for schema in schemas}


def _channel(address: str, message: str, description: str) -> Schema:
    return {
        "address": address,
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {"kafka": {"bindingVersion": _KAFKA_BINDING}},
    }


def _operation(action: str, channel: str, message: str) -> Schema:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
    }


def _messages() -> Schema:
    any_bytes = {"description": "The payload as it is; the content-type header says what it is."}
    return {
        "request": _message("Request", "RequestHeaders", any_bytes, "Stream id: requests of one key keep their order."),
        "result": _message("Result", "ResultHeaders", {"$ref": f"{_COMPONENTS}ResultBody"}, "The request's own."),
        "deadLetter": _message("Dead letter", "DeadLetterHeaders", any_bytes, "The request's own."),
        "versionCut": _message("Version cut", None, {"$ref": f"{_COMPONENTS}CutBody"}, "MODEL/TOPIC/PARTITION/EPOCH."),
        "comparison": _message(
            "Comparison", "ShadowHeaders", {"$ref": f"{_COMPONENTS}ShadowBody"}, "The request's own."
        ),
    }


def _message(title: str, headers: str | None, payload: Schema, key: str) -> Schema:
    return {
        "title": title,
        **({"headers": {"$ref": _COMPONENTS + headers}} if headers is not None else {}),
        "payload": payload,
        "bindings": {
            "kafka": {"key": {"type": "string", "description": key}, "bindingVersion": _KAFKA_BINDING},
        },
    }
