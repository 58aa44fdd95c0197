"""A sample record with the answer that a version must give to it before it may serve."""

import base64
import binascii
from typing import Annotated, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from schemas.records import JSON


class GoldenSample(BaseModel):
    """Exactly one of `payload`, a JSON value, and `payload_base64`, the bytes of any payload, is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    payload: JsonValue = None
    payload_base64: str | None = None
    content_type: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")] = JSON
    answer: JsonValue
    """What the model answers, as JSON."""
    tolerance: float = Field(1e-4, ge=0, le=1, allow_inf_nan=False)
    """How far a number may be off, absolutely, or in proportion to the larger of the two."""

    @model_validator(mode="after")
    def _one_payload(self) -> Self:
        if (self.payload is None) == (self.payload_base64 is None):
            raise ValueError("exactly one of payload and payload_base64 is needed")
        self.payload_bytes()
        return self

    def payload_bytes(self) -> bytes:
        """The payload as a request would carry it. Raises ValueError when it is not base64."""
        if self.payload_base64 is None:
            return msgspec.json.encode(self.payload)
        try:
            return base64.b64decode(self.payload_base64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"payload_base64: {error}") from None
