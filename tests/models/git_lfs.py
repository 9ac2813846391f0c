"""A Git LFS pointer, as a clone without LFS has it in place of a file."""

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064}\nsize 90868376\n"
