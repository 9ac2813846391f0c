"""The shapes of answers in JSON, for the OpenAPI document; what is told of them is all there is."""
