"""Colours by column and by cluster."""

import numpy as np

from embedwell_lab.plots.scatter import Categories, Numbers, color_by_cluster, color_by_column


def categories(*values: object) -> Categories:
    coloring = color_by_column("kind", values)
    assert isinstance(coloring, Categories)
    return coloring


def test_the_most_frequent_category_comes_first() -> None:
    coloring = categories("b", "a", None, "a")
    assert coloring.names == ["a (2)", "b (1)"]
    assert coloring.codes.tolist() == [1, 0, -1, 0]
    assert coloring.descriptions == ["kind: b", "kind: a", "", "kind: a"]


def test_rare_categories_share_a_colour() -> None:
    values = [f"c{index}" for index in range(12) for _ in range(12 - index)]
    coloring = categories(*values)
    assert coloring.names[-1] == "4 others (10)" and len(coloring.names) == 9
    assert coloring.codes.max() == 8 and (coloring.codes == 8).sum() == 10
    assert coloring.descriptions[-1] == "kind: c11"


def test_nine_categories_have_their_own_colours() -> None:
    assert categories(*"abcdefghi").codes.tolist() == list(range(9))


def test_numbers_are_a_scale_and_booleans_are_not() -> None:
    coloring = color_by_column("n", [1, 2.5, None])
    assert isinstance(coloring, Numbers)
    np.testing.assert_array_equal(coloring.values, [1, 2.5, np.nan])
    assert coloring.descriptions == ["n: 1", "n: 2.5", ""]
    assert categories(True, False, True).names == ["true (2)", "false (1)"]


def test_a_column_without_values_has_no_category() -> None:
    assert categories(None, None).names == []


def test_a_cluster_is_named_by_its_most_typical_text() -> None:
    angles = np.radians([80, 90, 100, 0, 12])
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    coloring = color_by_cluster(["a", "b", "c", "d", "e"], vectors, np.array([1, 1, 1, 0, 0]))
    assert coloring.names[0] == "1: b (3)" and coloring.names[1].startswith("2: ")
    assert coloring.codes.tolist() == [0, 0, 0, 1, 1]
    assert coloring.descriptions[3] == "cluster 2"
