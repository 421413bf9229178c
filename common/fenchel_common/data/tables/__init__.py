"""Shards from the tables that organisations have: CSV, Parquet, LIBSVM, NPZ, and frames of Python libraries.

A table becomes a shard in three steps. A reader (`readers` lists them by format) turns the file into a `RawTable`, as
the `Declaration` in shard.toml says; `complete` deals with missing cells and duplicate ids and makes the `Shard`. A
table without a declaration is first profiled (`profile`), and its declaration is guessed (`guess`).

Cells and ids are secrets of the party. Errors and notes name files, rows and columns, and never a cell or an id: they
may stand in a log. Only a profile has cells; `fenchel data inspect` prints it on the party's own terminal.

Row 1 is the first row below the header.
"""
