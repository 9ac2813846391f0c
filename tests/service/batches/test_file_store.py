"""Files are kept with what is known of them until they are deleted or too old."""

import io
import os
import shutil
from pathlib import Path

import pytest

from embedwell.errors import NotFound, TooLarge
from tests.service.batches.stores import BLOCK, Stores


def test_a_file_is_kept_as_it_is(tmp_path: Path) -> None:
    id = Stores(tmp_path).add(b"some\nlines\n", "ä.jsonl")
    again = Stores(tmp_path).files
    file = again.get(id)
    assert (file.bytes, file.filename, file.purpose) == (11, "ä.jsonl", "batch")
    assert file.expires_at == file.created_at + 60
    assert again.content(id).read_bytes() == b"some\nlines\n"


@pytest.mark.parametrize("id", ["file-0", "file-" + "0" * 24, "../files", "", "batch_" + "0" * 24])
def test_an_unknown_file_is_not_found(tmp_path: Path, id: str) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        Stores(tmp_path).files.content(id)


def test_files_are_listed_the_newest_first_until_they_are_deleted(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    ids = [stores.add(b"x") for _ in range(3)]
    assert [file.id for file in stores.files.newest_first()] == ids[::-1]
    stores.files.remove(ids[1])
    assert [file.id for file in stores.files.newest_first()] == [ids[2], ids[0]]


def test_a_full_folder_takes_no_file_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    stores = Stores(tmp_path, folder_bytes=5 * BLOCK)
    first = stores.add(b"x" * BLOCK)  # with its description, two blocks
    with pytest.raises(TooLarge, match="EMBEDWELL_BATCH_MAX_BYTES") as caught:
        stores.add(b"x" * (3 * BLOCK + 1))
    assert caught.value.code == "storage_full"
    assert [path.name for path in (tmp_path / "files").iterdir()] == [first]
    stores.add(b"x" * 3 * BLOCK)


def test_an_upload_reserves_room_before_it_is_written(tmp_path: Path) -> None:
    stores = Stores(tmp_path, folder_bytes=10 * BLOCK)
    first, second = stores.files.upload(), Stores(tmp_path, folder_bytes=10 * BLOCK).files.upload()
    first.reserve(5 * BLOCK)
    assert first.reserved == stores.space.used() == 10 * BLOCK  # some more, as there is room
    with pytest.raises(TooLarge):
        second.reserve(1)
    first.finish(io.BytesIO(b"x" * 6 * BLOCK), "a")
    assert stores.space.used() == 7 * BLOCK
    second.reserve(3 * BLOCK)
    second.discard()
    assert [file.bytes for file in stores.files.newest_first()] == [6 * BLOCK]
    assert stores.space.used() == 7 * BLOCK


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]"])
def test_a_damaged_file_affects_no_other(tmp_path: Path, content: bytes) -> None:
    stores = Stores(tmp_path)
    damaged, good = stores.add(b"x"), stores.add(b"y")
    (tmp_path / "files" / damaged / "file.json").write_bytes(content)
    assert [file.id for file in stores.files.newest_first()] == [good]
    stores.files.remove_expired()
    stores.add(b"z")


def test_an_upload_that_a_kill_cut_off_is_deleted(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    kept = stores.add(b"x")
    for upload in (stores.files.upload(), stores.files.upload()):
        upload.reserve(10)
    old, new = sorted(path.name for path in (tmp_path / "files").iterdir() if path.name != kept)
    for path in (tmp_path / "files" / old / "content", tmp_path / "files" / old):
        os.utime(path, (1, 1))
    stores.files.remove_expired()
    assert {path.name for path in (tmp_path / "files").iterdir()} == {kept, new}


def test_expired_files_are_deleted(tmp_path: Path) -> None:
    kept, old = Stores(tmp_path).add(b"x"), Stores(tmp_path, retention=0).add(b"x")
    files = Stores(tmp_path).files
    files.remove_expired()
    assert [file.id for file in files.newest_first()] == [kept] != [old]


def test_results_become_a_file_also_after_a_kill_in_between(tmp_path: Path) -> None:
    files, id, results = Stores(tmp_path).files, "file-" + "1" * 24, tmp_path / "output.jsonl"
    results.write_bytes(b"results\n")
    before = shutil.copytree(tmp_path, tmp_path.with_name("before"))
    files.adopt(results, id, "output.jsonl")
    files.adopt(results, id, "output.jsonl")
    assert files.content(id).read_bytes() == b"results\n" and not results.exists()
    assert (files.get(id).bytes, files.get(id).purpose) == (8, "batch_output")
    killed = Stores(before).files
    (before / "files" / id).mkdir()
    (before / "files" / id / "file.json").write_text(files.get(id).model_dump_json())
    killed.adopt(before / "output.jsonl", id, "output.jsonl")
    assert killed.content(id).read_bytes() == b"results\n"
