"""What crosses a process boundary: records, codecs, headers, model manifests, settings and errors."""
