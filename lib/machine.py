"""The machine this process runs on: its cores, and files that several processes write to.

Where Numba keeps machine code: in a folder named by the sources that it may depend on, so that no kernel outlives an
edit, and an edit elsewhere leaves all kernels as they are.

Numba looks at the file of a kernel alone. Kernels that it calls, and numbers that it uses, may come from other files
and are compiled into it: after an edit there the old machine code would run on.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import IO

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
OWN_FOLDER = re.compile(r"lib-[0-9a-f]{16}")  # names of our folders
MARK = "last-used"
UNUSED_DAYS = 30
_NUMBA = re.compile(rb"^[ \t]*(?:from|import)[ \t]+numba\b", re.M)  # at the start of a line: an import, not a mention
_DOTTED = re.compile(rb"\b(?:lib|experiments)(?:\.\w+)+|(?<=from )(?:lib|experiments)(?= import)")  # modules of ours
_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.M)  # imports from the own package
_WORD = re.compile(rb"\w+")  # every name that stands in a text
KEPT = {-3: 2**30, -1: 2**31 - 1, -8: 1}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX of malloc.h
ROOM = 64 * 2**20  # bytes that have to be free: Numba lets a kernel fail whose machine code it cannot write


def available_cores() -> int:
    """Processor cores that this process may use, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, for the next update of a training needs it again.

    By `mallopt` of the GNU C library: blocks of up to 1 GiB come from the heap, whose end is kept up to 2 GiB. Without
    it those of 32 MiB and more go back to the system at once, and are taken again page by page. False, and nothing is
    changed, where that library is not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and sum(mallopt(option, value) for option, value in KEPT.items()) == len(KEPT)


@contextlib.contextmanager
def needs_scheduler(then: str) -> Iterator[None]:
    """ConnectionError, with what to do `then`, where a Dask cluster shows in this block that its scheduler is gone.

    It shows as a cancelled task, as an error of the connection, or as a client that was closed before it sent a task.
    """
    from distributed.client import ClosedClientError

    try:
        yield
    except (CancelledError, OSError, ClosedClientError) as gone:
        raise ConnectionError(f"the scheduler is gone; {then}") from gone


def expanded(name: str | Path) -> Path:
    """The path with ``~`` as the home of a user; ``ValueError`` if there is no such user."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        told = f"a path that begins with ~ and a known user is allowed, got {str(name)!r}: {error}"
        raise ValueError(told) from error


def append_line(path: Path, line: str) -> None:
    """Add ``line``, with a line break, to a file in a single write, so that a kill leaves whole lines or one torn tail.

    A torn tail of an earlier process is cut off first: it never was a line. Where the system has file locks, writers
    take turns, so that none takes the unfinished line of another for such a tail. Raises OSError, and leaves nothing of
    the line, where not all of it could be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file, locked(path):
        whole = _length_of_whole_lines(file)
        if whole < os.fstat(file.fileno()).st_size:
            file.truncate(whole)
        left = f"{line}\n".encode()
        try:
            while left:  # a disk that fills up takes a part without an error, and has one for the rest
                left = left[file.write(left) :]
        except OSError:
            file.truncate(whole)
            raise


def _length_of_whole_lines(file: IO[bytes]) -> int:
    end = os.fstat(file.fileno()).st_size
    while end > 0:
        start = max(0, end - 4096)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a folder, or a file that is made if need be, until the block ends or this process dies; yields if it does.

    Without `wait`, False if somebody else holds it. Who holds a file may remove it. Where files cannot be locked
    (Windows, some network disks), whoever waits goes on as if it held the file, and nobody else ever gets it.
    """
    with contextlib.ExitStack() as closing:
        held = wait
        with contextlib.suppress(ImportError, OSError):
            held = _hold(path, wait, closing)
        yield held


def _hold(path: Path, wait: bool, closing: contextlib.ExitStack) -> bool:
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
        closing.callback(os.close, descriptor)  # which releases the lock
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if _is_still(path, descriptor):
            return True


def _is_still(path: Path, descriptor: int) -> bool:
    """False if somebody removed the file between our opening and our locking it: then it guards nothing any more."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name and rename it, so that it is complete or not there, also on a full disk."""
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def name_kernel_cache(root: Path) -> None:
    """Make Numba keep the machine code of the book in ``root`` in a folder named by what its kernels are made of.

    It lies in NUMBA_CACHE_DIR if that is set, else in ``_build/numba``, else in the cache folder of the user; where
    none can be written or all are full, in a temporary folder for this process and those it starts. Folders that were
    not used for 30 days are removed. About 12 ms.
    """
    name = folder_of_kernels(root)
    for parent in _parents(root):
        folder = parent / name
        if _can_be_used(folder):
            break
    else:
        made = _temporary()
        if made is None:
            return  # there is no place to write at all: Numba says so if it is used
        parent, folder = made, made / name
    os.environ[CACHE_VARIABLE] = str(folder)
    if "numba" in sys.modules:  # it has read the variable already
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    _remove_unused(parent)


def folder_of_kernels(root: Path) -> str:
    """``lib-`` and a digest of the Python files of `lib` and `experiments` that import Numba, and of all that these
    import of both, directly or through others.

    Imports are looked for in the text: rather a file too many than one too few.
    """
    files = dict(_python_files(root))
    waiting = [name for name, text in files.items() if b"numba" in text and _NUMBA.search(text)]
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = files[name]
            waiting += _read_by(name, files)
    total = hashlib.sha256()
    for name in sorted(found):
        total.update(f"{name}\0{len(found[name])}\0".encode() + found[name])
    return f"lib-{total.hexdigest()[:16]}"


def _python_files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Dotted name and content of each, a package under the name of its folder."""
    for top in ("lib", "experiments"):
        for place, folders, names in os.walk(root / top):
            folders[:] = (name for name in folders if name != "__pycache__")
            package = ".".join(Path(place).relative_to(root).parts)
            for name in (name for name in names if name.endswith(".py")):
                with open(f"{place}/{name}", "rb", buffering=0) as file:  # noqa: PTH123  half of Path's time
                    content = file.read()
                yield package if name == "__init__.py" else f"{package}.{name[:-3]}", content


def _read_by(name: str, files: dict[str, bytes]) -> set[str]:
    """Modules that a file names, and those of a package named there whose own name is anywhere in its text."""
    text = files[name]
    named = {name.rpartition(".")[0]} if _RELATIVE.search(text) else set()
    for dotted in {match.decode() for match in _DOTTED.findall(text)}:
        while dotted and dotted not in files:
            dotted = dotted.rpartition(".")[0]
        named.add(dotted)
    inside = {other for other in files if other.rpartition(".")[0] in named}
    words = set(_WORD.findall(text)) if inside else set()
    return named & files.keys() | {other for other in inside if other.rpartition(".")[2].encode() in words}


def _parents(root: Path) -> Iterator[Path]:
    setting = os.environ.get(CACHE_VARIABLE)
    if setting:
        with contextlib.suppress(RuntimeError):  # of a user who does not exist
            given = Path(setting).expanduser().absolute()
            yield given.parent if OWN_FOLDER.fullmatch(given.name) else given  # set by the process that started this
    yield root / "_build" / "numba"
    own, user = os.environ.get("BOOK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # a user without a home
        place = Path(own).expanduser() if own else Path(user or "~/.cache").expanduser() / "memory-of-sequence-models"
        yield place.absolute() / "numba"


def _can_be_used(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text(time.strftime("%Y-%m-%d\n"), encoding="utf-8")
        return not hasattr(os, "statvfs") or _free(folder) >= ROOM
    except OSError:
        return False


def _free(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def _temporary() -> Path | None:
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="book-numba-"))
    except OSError:
        return None
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def _remove_unused(parent: Path) -> None:
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for folder in parent.iterdir():
        with contextlib.suppress(OSError):  # another process may be making or removing it
            if OWN_FOLDER.fullmatch(folder.name) and (folder / MARK).stat().st_mtime < oldest:
                import shutil

                shutil.rmtree(folder, ignore_errors=True)
