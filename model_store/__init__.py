"""Which model, which version, which bytes: artefacts, verification, cache and the active-version timeline."""
