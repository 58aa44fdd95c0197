"""What every group of settings is: frozen, and closed to names that it does not know."""

from pydantic import BaseModel, ConfigDict

MIB = 1 << 20


class SettingsGroup(BaseModel):
    """Base of the groups in :mod:`schemas.settings`."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
