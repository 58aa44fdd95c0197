"""Model classes that come with Headrace; each is imported only when a manifest names it."""
