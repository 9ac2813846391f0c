"""Chat templates of a model folder, rendered once to the text around the texts of a request.

sentence-transformers passes messages with the roles query and document to a reranker's template,
and a message with the role user to that of a model that embeds. Before them comes an instruction,
which is an embedder's prompt, as a message with the role system.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedwell_models.config import other_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.chat_template import PROCESSOR_FILE, template_files
from embedwell_models.tokenizer.formats import PairFormat, PromptSlot, Segments, TextFormat
from embedwell_models.tokenizer.loading.tokenizer_config import AddedTokens

_DEFAULT = "default"
# Private-use characters that no template contains.
_MARKS = {
    PromptSlot.QUERY: "\ue000",
    PromptSlot.DOCUMENT: "\ue001",
    PromptSlot.INSTRUCTION: "\ue002",
}
_SLOTS = {mark: slot for slot, mark in _MARKS.items()}
_ROLES = {
    PromptSlot.QUERY: "query",
    PromptSlot.DOCUMENT: "document",
    PromptSlot.INSTRUCTION: "system",
}
# Marks between white space that a template must keep.
_TEXT, _INSTRUCTION = (
    f" \n{_MARKS[slot]}\n " for slot in (PromptSlot.DOCUMENT, PromptSlot.INSTRUCTION)
)
# Parts of a template by which sentence-transformers detects that contents are lists of typed parts.
_STRUCTURED = ("content[0]", ".type", "'type'", '"type"', "message.content[")

_Source = tuple[Path, str]  # the file of a template, and the template

Content = str | Sequence[Mapping[str, str]]
"""Content of a message: a text, or typed parts."""


def read_pair_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None, prompt: str
) -> PairFormat:
    """Read the format of pairs, see `model_files.chat_template.read_pair_format`."""
    template = _template(folder, _templates(folder), variables, message_format)
    instructed = template.segments(PromptSlot.INSTRUCTION, PromptSlot.QUERY, PromptSlot.DOCUMENT)
    pair_format = PairFormat(
        template.segments(PromptSlot.QUERY, PromptSlot.DOCUMENT),
        instructed if PromptSlot.INSTRUCTION in instructed else None,
        template.strips,
    )
    if not prompt or pair_format.instructed is None:
        return pair_format
    return replace(pair_format, default=pair_format.segments(prompt))


def read_text_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None
) -> TextFormat | None:
    """Read the format of texts, see `model_files.chat_template.read_text_format`."""
    template = _processor_template(folder, variables, message_format)
    if template is None:
        return None
    plain, after = _parts(folder, template.render({"user": _TEXT}), _TEXT)
    *instructed, after_both = _parts(
        folder, template.render({"system": _INSTRUCTION, "user": _TEXT}), _INSTRUCTION, _TEXT
    )
    if after != after_both:
        raise ModelError(
            f"{folder}: in its chat template, an instruction changes the text after it"
        )
    image = _image(template, plain, after)
    return TextFormat(plain, (instructed[0], instructed[1]), after, image)


def keeps_texts(folder: Path) -> bool:
    """Whether the chat template of a folder renders exactly the prompt followed by the text.

    The messages have the roles system and user, and lists of typed parts as contents.

    Raises ModelError for a template that cannot be rendered.
    """
    source = _templates(folder).get(_DEFAULT)
    if source is None:
        return False
    template = Template(folder, *source, {}, structured=True)
    alone, prompted = {"user": _TEXT}, {"system": _INSTRUCTION, "user": _TEXT}
    return template.render(alone) == _TEXT and template.render(prompted) == _INSTRUCTION + _TEXT


def _processor_template(
    folder: Path, variables: Mapping[str, Any], message_format: str | None
) -> "Template | None":
    """Read the chat template of a processor for several media; return None if there is none.

    For the arguments see read_pair_format. Raises ModelError for a template that cannot be
    rendered.
    """
    templates = _templates(folder)
    if (path := folder / PROCESSOR_FILE).exists():
        templates = _stated(path, JsonConfig(path)["chat_template"])
    return _template(folder, templates, variables, message_format) if templates else None


def _image(template: "Template", plain: str, after: str) -> str:
    """Return the text of an image between two texts; "" if the template has no images.

    plain, after: the text around a text.
    """
    texts = [{"type": "text", "text": text} for text in (_TEXT, _INSTRUCTION)]
    try:
        rendered = template.render({"user": [texts[0], {"type": "image"}, texts[1]]})
    except ModelError:
        return ""
    before, behind = plain + _TEXT, _INSTRUCTION + after
    if not (rendered.startswith(before) and rendered.endswith(behind)):
        return ""
    return rendered[len(before) : len(rendered) - len(behind)]


def _parts(folder: Path, rendered: str, *texts: str) -> list[str]:
    """Split the rendered template at texts; each text must occur once, in order."""
    parts = []
    for text in texts:
        if rendered.count(text.strip()) != 1 or text not in rendered:
            raise ModelError(
                f"{folder}: the chat template cannot format a text: it must keep the "
                "message of the role user, and before it that of the role system, as they are"
            )
        part, _, rendered = rendered.partition(text)
        parts.append(part)
    return [*parts, rendered]


def _template(
    folder: Path,
    templates: Mapping[str, _Source],
    variables: Mapping[str, Any],
    message_format: str | None,
) -> "Template":
    variables = dict(variables)
    name = variables.pop("chat_template", _DEFAULT)
    if name not in templates:
        raise ModelError(f"{folder} has no chat template {name!r}; it has {sorted(templates)}")
    file, source = templates[name]
    structured = any(part in source for part in _STRUCTURED)
    if message_format is not None:
        structured = message_format == "structured"
    return Template(folder, file, source, variables, structured)


def _templates(folder: Path) -> dict[str, _Source]:
    files = template_files(folder)
    if files:
        names = [_DEFAULT if path.parent == folder else path.stem for path in files]
        return {name: (path, _read(path)) for name, path in zip(names, files, strict=True)}
    path = folder / "tokenizer_config.json"
    stated = JsonConfig.optional(path).get("chat_template")
    return {} if stated is None else _stated(path, stated)


def _read(path: Path) -> str:
    try:
        return other_files.read(path).decode()
    except (OSError, UnicodeError) as error:
        raise ModelError(f"{path}: the chat template cannot be read: {error}") from None


def _stated(path: Path, stated: Any) -> dict[str, _Source]:
    """Return the templates by their names. stated: a template, or a list of named templates."""
    named = stated if isinstance(stated, list) else [{"name": _DEFAULT, "template": stated}]
    try:
        templates = {template["name"]: template["template"] for template in named}
    except (TypeError, LookupError):
        templates = {None: None}
    if not all(isinstance(text, str) for item in templates.items() for text in item):
        raise ModelError(
            f"{path}: chat_template must be a text, or a list of objects with name and template"
        )
    return {name: (path, template) for name, template in templates.items()}


class Template:
    """A chat template with its variables."""

    def __init__(
        self,
        folder: Path,
        file: Path,
        source: str,
        variables: Mapping[str, Any],
        structured: bool,
    ) -> None:
        """file: file of the template, for errors.

        structured: whether the content of a message is a list of parts, not a text.
        """
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._file, self._structured = file, structured
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.globals["raise_exception"] = _raise
        try:
            self._template = environment.from_string(source)
        except Exception as error:  # the lexer and constant folding raise many kinds
            raise self._broken(error) from None
        self._variables = {**_special_tokens(folder), **variables}

    @property
    def strips(self) -> bool:
        """Whether the template removes white space around queries and documents."""
        spaced = self._render({PromptSlot.QUERY: " {} ", PromptSlot.DOCUMENT: " {} "})
        return not all(
            f" {_MARKS[slot]} " in spaced for slot in (PromptSlot.QUERY, PromptSlot.DOCUMENT)
        )

    def segments(self, *slots: PromptSlot) -> Segments:
        """Render messages with one slot each, in order."""
        text = self._render(dict.fromkeys(slots, "{}"))
        for slot in (PromptSlot.QUERY, PromptSlot.DOCUMENT):
            if text.count(_MARKS[slot]) != 1:
                raise ModelError(
                    f"{self._file}: the chat template has {text.count(_MARKS[slot])} places for "
                    f"a message of the role {slot.value}, so it cannot format a pair: name a "
                    "format with EMBEDWELL_RERANK_FORMAT (rerank_format= in Python)"
                )
        parts = re.split(f"([{''.join(_SLOTS)}])", text)
        return tuple(_SLOTS.get(part, part) for part in parts if part)

    def _render(self, contents: Mapping[PromptSlot, str]) -> str:
        return self.render({_ROLES[slot]: s.format(_MARKS[slot]) for slot, s in contents.items()})

    def render(self, contents: Mapping[str, Content]) -> str:
        """Render one message for each role, in order. contents: role -> content."""
        messages = [
            {"role": role, "content": self._content(content)} for role, content in contents.items()
        ]
        options = {"tools": None, "documents": None, "add_generation_prompt": False}
        try:
            return self._template.render(**{**options, **self._variables}, messages=messages)
        except Exception as error:  # the template is code, which can raise any exception
            raise self._broken(error) from None

    def _content(self, content: Content) -> Content:
        if isinstance(content, str) and self._structured:
            return [{"type": "text", "text": content}]
        return content

    def _broken(self, error: Exception) -> ModelError:
        reason = str(error) or type(error).__name__
        return ModelError(f"{self._file}: the chat template cannot be rendered: {reason}")


def _special_tokens(folder: Path) -> dict[str, str]:
    special = AddedTokens(folder, {}).special
    return {f"{role}_token": token.content for role, token in special.items()}


def _raise(message: str) -> None:
    raise ValueError(message)
