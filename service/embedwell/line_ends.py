"""Lines of JSON that all readers cut at the same places."""

_LINE_END_ESCAPES = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\x85\u2028\u2029"
}


def escape_line_ends(text: bytes) -> bytes:
    """Escape the characters of JSON at which some readers end a line, as str.splitlines does.

    JSON writers escape those below U+0020; the others can only be inside its strings.
    """
    for character, escape in _LINE_END_ESCAPES.items():
        text = text.replace(character, escape)
    return text
