import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from schemas.documents import build_documents, render_document, write_documents
from schemas.errors import ConfigurationError
from schemas.headers import encode_dead_letter_headers, encode_request_headers, encode_result_headers
from schemas.manifest import ModelManifest
from schemas.records import (
    CONTENT_TYPES,
    JSON,
    ErrorDetail,
    Position,
    Request,
    ResultBody,
    Stage,
    Status,
    Timings,
)
from schemas.settings import Settings, TopicSettings
from schemas.shadow_records import (
    LabelChange,
    ShadowBody,
    ShadowChange,
    ShadowFailure,
    ShadowTimings,
    encode_shadow_headers,
)
from schemas.version_cuts import VersionCut, encode_cut

CONTRACT = Path(__file__).parents[3] / "docs" / "contract"
DOCUMENTS = build_documents()
Headers = Sequence[tuple[str, str | bytes | None]]


def check(name: str, value: object) -> None:
    jsonschema.Draft202012Validator(DOCUMENTS[name]).validate(value)


def is_valid(name: str, value: object) -> bool:
    return bool(jsonschema.Draft202012Validator(DOCUMENTS[name]).is_valid(value))


def as_text(headers: Headers) -> dict[str, str]:
    return {name: value.decode() if isinstance(value, bytes) else value or "" for name, value in headers}


def full_request_headers(content_type: str = JSON) -> Headers:
    return encode_request_headers(
        request_id="r-1",
        source="camera/1",
        content_type=content_type,
        time="2026-01-01T00:00:00Z",
        sequence=4,
        deadline_ms=1_800_000_000_000,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def full_result_headers() -> Headers:
    return [*encode_result_headers("model", "v1", 3, "bf16"), ("ce_id", b"r-1"), ("traceparent", b"00-0a-b7-01")]


def full_dead_letter_headers() -> Headers:
    request = Request(
        id="r-1",
        topic="t",
        partition=0,
        offset=1,
        timestamp_ms=-1,
        key=None,
        payload=b"",
        content_type=JSON,
        headers=tuple((name, value.encode()) for name, value in as_text(full_request_headers()).items()),
    )
    error = ErrorDetail(stage=Stage.MODEL, code="model_failure", error_class="ModelFailureError", message="no")
    return encode_dead_letter_headers(
        request,
        error,
        group="g",
        worker="w",
        model="m",
        version="v1",
        epoch=0,
        time_ms=5,
        payload_omitted=True,
        precision="int8",
    )


def result_body(status: Status) -> object:
    body = ResultBody(
        status=status,
        output=msgspec.Raw(b'{"class": 1}' if status is Status.OK else b"null"),
        source=Position("t", 0, 1),
        timings=Timings(1.0, 2.5, 4),
        source_timestamp_ms=1_700_000_000_000,
    )
    return json.loads(msgspec.json.encode(body))


def comparison_body(**changes: Any) -> object:
    timings = ShadowTimings(1.0, 2.5, 4, 3)
    body = ShadowBody(False, Position("t", 0, 1), 1_700_000_000_000, timings, **changes)
    return json.loads(msgspec.json.encode(body))


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def resolve(document: Any, reference: str) -> Any:
    assert reference.startswith("#/"), f"{reference} points outside the document"
    for part in reference[2:].split("/"):
        document = document[part]
    return document


def test_the_committed_documents_are_those_of_the_code() -> None:
    kept = {path.name: path.read_bytes() for path in CONTRACT.glob("*.json")}
    made = {name: render_document(document) for name, document in DOCUMENTS.items()}
    assert kept == made, "run `headrace schemas write` and commit docs/contract"


def test_writing_makes_the_folder_and_every_document(tmp_path: Path) -> None:
    paths = write_documents(tmp_path / "new" / "folder")
    assert {path.name for path in paths} == set(DOCUMENTS)
    assert all(path.read_bytes() == render_document(DOCUMENTS[path.name]) for path in paths)


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="contract documents"):
        write_documents(tmp_path / "file")


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.endswith(".schema.json")])
def test_each_schema_is_a_valid_schema_and_its_references_resolve(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENTS[name])
    for reference in references(DOCUMENTS[name]):
        resolve(DOCUMENTS[name], reference)


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_the_headers_of_a_written_request_fit_the_schema(content_type: str) -> None:
    check("request-headers.schema.json", as_text(full_request_headers(content_type)))


def test_a_request_needs_no_header_at_all_and_may_carry_strange_ones() -> None:
    check("request-headers.schema.json", {})
    check("request-headers.schema.json", {"x-mine": "anything"})


@pytest.mark.parametrize(
    "headers",
    [
        {"ce_specversion": "2.0"},
        {"ce_deadline": "tomorrow"},
        {"ce_dataref": "file:///x"},
        {"content-type": "text/html"},
        {"ce_id": "x" * 257},
        {"traceparent": "x" * 257},
    ],
)
def test_what_the_worker_would_refuse_does_not_fit_the_schema(headers: dict[str, str]) -> None:
    assert not is_valid("request-headers.schema.json", headers)


def test_the_schemas_name_exactly_the_headers_that_are_written() -> None:
    def named(document: str) -> set[str]:
        return set(DOCUMENTS[document]["properties"])

    assert named("request-headers.schema.json") - {"ce_dataref"} == {name for name, _ in full_request_headers()}
    assert named("result-headers.schema.json") == {name for name, _ in full_result_headers()}
    written = {name for name, _ in full_dead_letter_headers()} - {name for name, _ in full_request_headers()}
    assert named("dead-letter-headers.schema.json") == written


@pytest.mark.parametrize("status", list(Status))
def test_a_result_fits_its_schemas(status: Status) -> None:
    check("result.schema.json", result_body(status))
    check("result-headers.schema.json", as_text(full_result_headers()))


def test_a_result_without_its_source_does_not_fit_the_schema() -> None:
    assert not is_valid("result.schema.json", {"status": "ok", "output": 1})


def test_a_dead_letter_fits_its_schema() -> None:
    check("dead-letter-headers.schema.json", as_text(full_dead_letter_headers()))


def test_a_manifest_and_the_settings_fit_their_schemas() -> None:
    manifest = ModelManifest(name="m", version="v1", model_class="mlp", files=())
    check("model-manifest.schema.json", manifest.model_dump(mode="json"))
    check("settings.schema.json", Settings().model_dump(mode="json"))


def test_a_cut_fits_its_schema_and_the_asyncapi_document_has_its_topic() -> None:
    _, value = encode_cut(VersionCut("m", "requests", 3, 7, 1234, 99))
    check("version-cut.schema.json", json.loads(value))
    assert not is_valid("version-cut.schema.json", {"offset": -1, "epoch": 7, "at_ms": 0})
    addresses = {channel["address"] for channel in DOCUMENTS["asyncapi.json"]["channels"].values()}
    topics = TopicSettings()
    assert addresses == {topics.requests[0], topics.results, topics.dead_letters, topics.control, topics.shadow}


def test_every_reference_of_the_asyncapi_document_resolves() -> None:
    document = DOCUMENTS["asyncapi.json"]
    for reference in references(document):
        resolve(document, reference)


def test_the_asyncapi_document_has_the_shape_of_version_3() -> None:
    document = DOCUMENTS["asyncapi.json"]
    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= set(document["info"])
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        channel = resolve(document, operation["channel"]["$ref"])
        assert channel["address"]
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/")
    for message in document["components"]["messages"].values():
        assert {"payload", "bindings"} <= set(message)


def test_a_result_fits_the_payload_of_its_message_in_the_asyncapi_document() -> None:
    document = DOCUMENTS["asyncapi.json"]
    payload = document["components"]["messages"]["result"]["payload"]
    schema = {**payload, "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(result_body(Status.OK))


def test_a_written_comparison_fits_the_schemas() -> None:
    headers = encode_shadow_headers(encode_result_headers("model", "v1", 3, "bf16"), "v2", "r-1", "00-0a-b7-01")
    check("shadow-headers.schema.json", as_text(headers))
    assert not is_valid("shadow-headers.schema.json", as_text(full_result_headers()))
    check("shadow.schema.json", comparison_body(failure=ShadowFailure(Stage.MODEL, "model_crashed", "Error", "no")))
    change = ShadowChange("/0/label", active="cat")
    label = LabelChange("cat", "dog")
    check("shadow.schema.json", comparison_body(changed=1, label=label, changes=[change], output=msgspec.Raw(b"[3]")))
