"""The choice of a precision by speed and accuracy."""
