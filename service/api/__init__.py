"""The endpoints, a module for each family of them: what they accept and what they answer."""
