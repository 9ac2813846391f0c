"""Print pairs for training: docstrings of installed packages that are not searched."""

import json

import click

from examples.hybrid_search.documents import read_documents, training_documents


@click.command()
@click.option("--searched", default=1000, show_default=True, help="Documents that are left out.")
def main(searched: int) -> None:
    """Print a line of JSON for each docstring: its first line and the rest."""
    left_out = {text for document in read_documents(searched) for text in document.texts()}
    for document in training_documents():
        if left_out.isdisjoint(document.texts()):
            click.echo(json.dumps({"anchor": document.query, "positive": document.text}))


if __name__ == "__main__":
    main()
