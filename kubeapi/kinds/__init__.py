"""Declarations of kinds beyond the first ones: columns, defaults, validation, and the `ResourceType` itself. Pure."""
