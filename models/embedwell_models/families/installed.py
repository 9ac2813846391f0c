"""Families of other packages, which entry points of the environment name.

An entry point of GROUP has a model_type as its name, and as its value a module with FAMILIES, as
the modules of this package have.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from embedwell_models.errors import ModelError
from embedwell_models.families import index
from embedwell_models.families.family import Family

GROUP = "embedwell.families"


def model_types() -> list[str]:
    """List the model types that entry points name."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def every_family() -> list[Family]:
    """Import the families of all packages; raises ModelError as `families_of` does."""
    return [family for model_type in model_types() for family in families_of(model_type)]


@cache
def families_of(model_type: str) -> Sequence[Family]:
    """Import the families of the packages that name a model_type.

    Raises ModelError for a package that cannot be imported, and for the name of another family.
    """
    imported: list[Family] = []
    for entry in entry_points(group=GROUP, name=model_type):
        package = entry.dist.name if entry.dist else "an unknown package"
        place = f"{GROUP} {entry.name!r} of {package} ({entry.value})"
        try:
            families: Sequence[Family] = entry.load().FAMILIES
        except Exception as error:
            raise ModelError(
                f"{place} cannot be imported: {error!r}; repair or uninstall {package}"
            ) from error
        if taken := [family.name for family in families if family.name in index.NAMES]:
            raise ModelError(f"{place} has the name of another family, {taken[0]!r}: change it")
        imported += families
    return imported
