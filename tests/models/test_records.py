"""Records have what a frozen dataclass has, but for the check of assignments."""

import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace

import pytest

from embedwell_models.records import record


@record
class Token:
    """A record with fields that are not compared or shown."""

    text: str
    id: int = 0
    seen: int = field(default=0, compare=False)
    key: str = field(default="secret", repr=False)


@dataclass(frozen=True)
class FrozenToken:
    """The same, as the standard library has it."""

    text: str
    id: int = 0
    seen: int = field(default=0, compare=False)
    key: str = field(default="secret", repr=False)


@record(kw_only=True, slots=True)
class Span:
    """A record with one field, which needs its name."""

    length: int


@record
class LongerSpan(Span):
    """A record that inherits."""

    start: int = 0


@record
class Nothing:
    """A record without fields."""


@record
class Named:
    """A record with methods of its own."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        return self.name


def test_a_record_shows_the_fields_of_a_frozen_dataclass() -> None:
    assert repr(Token("a", 3)) == repr(FrozenToken("a", 3)).replace("FrozenToken", "Token")


def test_records_of_a_class_are_equal_if_the_compared_fields_are() -> None:
    assert Token("a", 1, seen=1) == Token("a", 1, seen=2)
    assert hash(Token("a", 1, seen=1)) == hash(Token("a", 1, seen=2))
    assert Token("a", 1) != Token("a", 2)
    assert Token("a", key="b") != Token("a")


def test_records_of_two_classes_differ() -> None:
    number: object = 1
    assert LongerSpan(length=1) != Span(length=1)
    assert Span(length=1) != number
    assert Nothing() == Nothing()


def test_the_hash_is_that_of_a_frozen_dataclass() -> None:
    assert hash(Token("a", 3)) == hash(FrozenToken("a", 3))
    assert hash(Span(length=3)) == hash((3,))
    assert hash(Nothing()) == hash(())
    with pytest.raises(TypeError, match="unhashable"):
        hash(Token(["a"]))  # type: ignore[arg-type]


def test_functions_of_dataclasses_take_records() -> None:
    assert asdict(replace(LongerSpan(length=1), start=2)) == {"length": 1, "start": 2}


@pytest.mark.parametrize("value", [Token("a", 3), Span(length=2), LongerSpan(length=1)])
def test_a_record_can_be_pickled(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_slots_leave_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Span(length=1).width = 2  # type: ignore[attr-defined]


def test_methods_of_the_class_stay() -> None:
    assert Named("A") == Named("a")
    assert repr(Named("A")) == "A"
    assert hash(Named("A")) == 1


def test_only_a_frozen_dataclass_checks_assignments() -> None:
    token, frozen = Token("a"), FrozenToken("a")
    token.text = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        frozen.text = "b"  # type: ignore[misc]
    assert token.text == "b"
