"""A shadow version: it runs copies of requests for nobody, and is compared with what answered."""
