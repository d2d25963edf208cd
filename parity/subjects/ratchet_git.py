"""The past that a ratchet holds against: a subject's file and its records at the merge base, read by git's plumbing.

Nothing is checked out and nothing is written. Every call is bounded in time.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from parity.errors import RecordError, UsageError
from parity.records.parse import load_records, parse_text, to_record
from parity.subjects.ratchet import Ratchet, Standing, compare
from parity.subjects.subject import Loaded, Subject, faults, parse_subject

SECONDS = 20.0  # for one call of git
DEFAULTS = ("origin/main", "main")
_SHORT = 12  # digits of a commit, for people
_FILES = ("100644", "100755")  # the modes of files that are no links
# What a hook of git's sets: it speaks of the repository that the hook is of, from a folder that is not ours.
_OF_A_HOOK = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
}


class _Silent(Exception):
    """There is nothing to hold against; the text says why."""


def hold(root: Path, loaded: Loaded, base: str | None = None) -> Ratchet:
    """The subject now against the subject at the merge base of HEAD and `base` (null: origin/main, else main).

    Raises UsageError for a `base` that names no commit in a whole clone, and RecordError.
    """
    records = load_records(root, loaded.records)
    now = tuple(record.front.suite for record in records if record.is_undecided)
    try:
        past = _Past(loaded.path.parent, base)
        before = past.standing(loaded.path)
    except _Silent as silent:
        return Ratchet(note=f"held against nothing: {silent}")
    return compare(before, Standing(loaded.subject, now), f"the merge base {past.short}")


class _Past:
    """The repository that `folder` is in, at the merge base."""

    def __init__(self, folder: Path, base: str | None) -> None:
        self._folder = folder
        self._top = Path(self._line("rev-parse", "--show-toplevel"))
        self._commit = self._merge_base(base)

    @property
    def short(self) -> str:
        return self._commit[:_SHORT]

    def standing(self, path: Path) -> Standing:
        """What the subject's file and its records said."""
        files = self._files(path)
        if not files:
            raise _Silent(f"there is no {path.name} at the merge base {self.short}, so it begins here")
        subject = self._subject(path, files[0][1])
        records = self._files(path.parent / subject.records)
        return Standing(subject, tuple(self._undecided(records)) if records else None)

    def _subject(self, path: Path, blob: str) -> Subject:
        try:
            subject = parse_subject(self._contents([blob])[0])
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, RecursionError):
            subject = None
        if subject is None or any(faults(subject)):
            raise _Silent(f"{path.name} of the merge base {self.short} is none that this version reads")
        return subject

    def _undecided(self, records: Sequence[tuple[str, str]]) -> Iterator[str | None]:
        """The suites of the undecided records; a file that is no record says nothing."""
        found = [(place, blob) for place, blob in records if place.endswith(".md")]
        texts = self._contents([blob for _, blob in found])
        for (place, _), text in zip(found, texts, strict=True):
            try:
                record = to_record(parse_text(text.decode("utf-8", "replace"), place))
            except RecordError:
                continue
            if record.is_undecided:
                yield record.front.suite

    def _merge_base(self, base: str | None) -> str:
        for ref in DEFAULTS if base is None else (base,):
            commit = (
                None
                if ref.startswith("-")
                else self._said("rev-parse", "--verify", "-q", f"{ref}^{{commit}}")
            )
            if commit is not None:
                break
        else:
            if base is not None and self._said("rev-parse", "--is-shallow-repository") != "true":
                raise UsageError(f"--base {base} names no commit here", hint="fetch it, or name another")
            raise _Silent(
                f"there is no {base or ' and no '.join(DEFAULTS)} in this clone (--base REF names it)"
            )
        merged = self._said("merge-base", "HEAD", commit)
        if merged is None:
            raise _Silent(f"HEAD and {ref} have no commit in common in this clone")
        return merged

    def _files(self, path: Path) -> list[tuple[str, str]]:
        """Place and blob of the file at a path, or of every file below it."""
        place = Path(os.path.normpath(path))
        if not place.is_relative_to(self._top):
            return []
        name = place.relative_to(self._top).as_posix()
        listed = self._git("ls-tree", "-r", "-z", "--full-tree", self._commit, "--", name).decode(
            "utf-8", "replace"
        )
        rows = [row.split("\t", 1) for row in listed.split("\0") if row]
        return [(place, head.split()[2]) for head, place in rows if head.startswith(_FILES)]

    def _contents(self, blobs: Sequence[str]) -> list[bytes]:
        said = self._git("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
        contents = []
        for blob in blobs:
            head, _, said = said.partition(b"\n")
            parts = head.split()
            if len(parts) != 3:
                raise _Silent(f"this clone has not the object {blob[:_SHORT]} of the merge base")
            size = int(parts[2])
            contents.append(said[:size])
            said = said[size + 1 :]
        return contents

    def _line(self, *arguments: str) -> str:
        return self._git(*arguments).decode("utf-8", "replace").strip()

    def _said(self, *arguments: str) -> str | None:
        """The line that git answers, or null where it has none."""
        try:
            return self._line(*arguments) or None
        except _Refused:
            return None

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        environment = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
        try:
            done = subprocess.run(
                ["git", "-C", str(self._folder), *arguments],
                input=given,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            )
        except OSError:
            raise _Silent("there is no git here") from None
        except subprocess.TimeoutExpired:
            raise _Silent(f"git did not answer within {SECONDS:g} s") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise _Refused(said[0].removeprefix("fatal: ") if said else f"git {arguments[0]} failed")
        return done.stdout


class _Refused(_Silent):
    """Git's own words for why it does not answer."""
