"""Schemas of JSON responses for the OpenAPI document; responses have no other fields."""
