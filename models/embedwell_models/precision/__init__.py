"""Choice of a precision by speed and accuracy."""
