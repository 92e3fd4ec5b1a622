"""The only place where Numba options are spelled.

What
    `kernel` compiles a module-level function that runs without the GIL; `user_function` compiles what a user wrote,
    with Python's errors; `specialised` compiles our closures over it. `compiled_form_of` and `instruction` are typed
    spellings of Numba's extension points for the rest of `native/`.

Rules
    R1  Kernels never raise, allocate, log or call Python. They return a status code.
    R2  With `NUMBA_DISABLE_JIT=1` every decorator here returns the plain Python function, so that a debugger,
        coverage and the interleaver see ordinary code. That variable is a mode of the process: set it before Numba
        is imported.
    R3  Only module-level kernels of this package are cached, under the user's cache directory or `STRETCH_CACHE_DIR`
        (empty: nowhere). Closures over functions of the user never are (docs/adr/0005).

Why the cache is shaped as it is
    Numba's own cache keys a function by its own file: a callee or constant changed in another file, or a build with
    other checks, is served stale (measured). The directory therefore carries a digest of every flag, and below it one
    of the kernel's file and all that this file imports of the package, directly or not; so a change in any of those
    means another directory, and kernels that cannot see the change stay. Closures over functions never hit and leave
    a file per process, so `specialised` never caches. Numba's `CACHE_DIR` setting is process-wide; it is changed only
    while one of our kernels is being registered, so a user's own cached functions stay where they were
    (docs/adr/0005).

The variables are read once, when this module is imported: set them before the first import of `stretch`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import tempfile
import threading
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeVar, cast, overload

import numba
import numba.extending

from stretch.errors import StretchError

Function = TypeVar("Function", bound=Callable[..., Any])

# A module whose attributes are made from the environment, so type checkers know none of them.
_numba_config: Final[Any] = numba.config

JIT_ENABLED: Final = not _numba_config.DISABLE_JIT


def _flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


# Checks every array index of every kernel, atomics included; a build for tests, several times slower.
BOUNDSCHECK: Final = _flag("STRETCH_BOUNDSCHECK")
# Waits by sleeping instead of by futex: the path of systems without one, testable on those that have it.
FUTEX_DISABLED: Final = _flag("STRETCH_NO_FUTEX")

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_IMPORT: Final = re.compile(rf"^\s*(?:from|import)\s+{_PACKAGE.name}\.([\w.]+)", re.MULTILINE)
_cache_setting_lock: Final = threading.Lock()


def _options(*, inline: bool, nogil: bool) -> dict[str, Any]:
    """Return the Numba options of every kernel that this project compiles."""
    return {
        # Threads are the point: a kernel that kept the GIL would run alone.
        "nogil": nogil,
        # A division by zero gives inf or 0 as in NumPy; the Python model puts a branch and a raise in every division,
        # which keeps loops from being vectorised and lets a kernel raise (R1).
        "error_model": "numpy",
        # Results may not depend on the machine's vector width: the reference engine is compared bit by bit.
        "fastmath": False,
        # Explicit, because a default of None would follow Numba's own variable, unknown to our cache digest.
        "boundscheck": BOUNDSCHECK,
        # LLVM's alwaysinline rather than Numba's inline="always": the latter copies the callee's untyped code into
        # the caller, which costs compile time at each call site and blurs tracebacks, for the same machine code.
        "forceinline": inline,
        # Never through this option: it would use Numba's own directory and key (see the module header).
        "cache": False,
        # No reference counts (docs/adr/0004): kernels allocate nothing (R1), and the compiler now proves it. With
        # them, every array that a view of arrays carries is counted up and down, atomically, around each call.
        # Measured: counting words went from 194 to 18 ns per word, compiling from 6.3 to 2.1 s.
        "_nrt": False,
    }


def kernel_options() -> dict[str, Any]:
    """Return the options for functions that are called by address, which have no inlining or GIL to decide on."""
    options = _options(inline=False, nogil=True)
    return {name: options[name] for name in ("error_model", "fastmath", "boundscheck", "_nrt")}


@overload
def kernel(function: Function) -> Function: ...
@overload
def kernel(*, inline: bool = False, nogil: bool = True) -> Callable[[Function], Function]: ...
def kernel(
    function: Function | None = None, *, inline: bool = False, nogil: bool = True
) -> Function | Callable[[Function], Function]:
    """Compile a module-level function to code that runs without the GIL.

    Use `@kernel`, or `@kernel(inline=True)` for a helper of a few lines that must vanish into its callers. Only
    `native/` passes `nogil=False`: for single instructions called from Python, where giving the GIL away costs a
    wait of up to a switch interval (5 ms) to get it back.
    """

    def compile_kernel(plain: Function) -> Function:
        code: CodeType = cast("Any", plain).__code__
        if "<locals>" in plain.__qualname__:
            raise StretchError(
                f"@kernel cannot compile {plain.__qualname__}.",
                where=f"{code.co_filename}:{code.co_firstlineno}",
                why="it is defined inside another function, and kernels may be cached, which closures may not.",
                do="move it to the top of its module, or decorate it with @specialised.",
            )
        compiled = _compile(plain, _options(inline=inline, nogil=nogil))
        if JIT_ENABLED and _PACKAGE in Path(code.co_filename).resolve().parents:
            cache_in_digest_directory(compiled)
        return compiled

    return compile_kernel if function is None else compile_kernel(function)


@overload
def specialised(function: Function) -> Function: ...
@overload
def specialised(*, inline: bool = False) -> Callable[[Function], Function]: ...
def specialised(function: Function | None = None, *, inline: bool = False) -> Function | Callable[[Function], Function]:
    """Compile a closure over user functions: the options of `kernel`, never cached.

    The closure is compiled once per process and inlines what it closes over. Keep it small: everything that does not
    touch a user's function belongs in a `kernel`, which compiles once and may be cached.
    """

    def compile_closure(plain: Function) -> Function:
        return _compile(plain, _options(inline=inline, nogil=True))

    return compile_closure if function is None else compile_closure(function)


def user_function(function: Function) -> Function:
    """Compile a function that a user wrote, never cached: it fails where the same function fails in Python.

    A division by zero and an index out of range raise, as in the reference engine, instead of giving 0 and reading
    foreign memory. The price is a branch at those places of the user's code, none in the kernel that inlines it.
    """
    return _compile(function, _options(inline=False, nogil=True) | {"error_model": "python", "boundscheck": True})


def is_compiled(function: Any) -> bool:
    """Tell whether `function` is a compiled one; with `NUMBA_DISABLE_JIT=1` none is."""
    return bool(numba.extending.is_jitted(function))


def compiled_form_of(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Register what kernels call where they name the plain Python `function` (a typed `numba.extending.overload`).

    The decorated function gets Numba types and returns a lambda with the same parameter names.
    """

    def register(choose: Function) -> Function:
        # Numba compares the two signatures with their annotations, and a lambda has none.
        choose.__annotations__ = {}
        numba.extending.overload(function)(choose)
        return choose

    return register


def instruction(builder: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function out of LLVM instructions (a typed `numba.extending.intrinsic`); callable from kernels only."""
    return cast("Callable[..., Any]", numba.extending.intrinsic(builder))


def _compile(function: Function, options: dict[str, Any]) -> Function:
    if not JIT_ENABLED:
        return function
    return cast("Function", numba.njit(**options)(function))


def cache_in_digest_directory(dispatcher: Any) -> None:
    """Let Numba keep what it compiles for this function, or C callback, in our directory."""
    root = cache_directory()
    if root is None:
        return
    function = getattr(dispatcher, "py_func", None) or dispatcher._pyfunc
    sources = _digest_of_sources(Path(function.__code__.co_filename).resolve())
    with _cache_setting_lock:
        previous = _numba_config.CACHE_DIR
        _numba_config.CACHE_DIR = os.path.join(root, sources)
        try:
            dispatcher.enable_caching()
        finally:
            _numba_config.CACHE_DIR = previous


@functools.lru_cache(maxsize=1)
def cache_directory() -> str | None:
    """Return the directory of this build's compiled kernels, or None when there is none to write to."""
    root = os.environ.get("STRETCH_CACHE_DIR")
    is_chosen = root is not None
    if root is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        root = os.path.join(home, "stretch")
    if not root:
        return None
    build = f"{_version()}-{numba.__version__}-{_digest_of_flags()}"
    directory = os.path.join(os.path.abspath(root), build)
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        if not is_chosen:
            return None
        # Compiling again is slow, not wrong; failing here would keep an executor without a home from starting.
        warnings.warn(
            "stretch compiles its kernels again in this process.\n"
            f"  where: STRETCH_CACHE_DIR={root}\n"
            f"  why:   the directory cannot be written ({error.strerror}).\n"
            "  do:    point STRETCH_CACHE_DIR at a directory this user can write, or unset it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return directory


def _version() -> str:
    try:
        return metadata.version("stretch")
    except metadata.PackageNotFoundError:
        return "source"  # run from a source tree; the digest tells builds apart


def _digest_of_flags() -> str:
    """Digest every flag that changes what is made of the same sources."""
    flags = (
        _options(inline=False, nogil=True),
        FUTEX_DISABLED,
        platform.system(),
        platform.machine(),
        platform.python_version(),
        _numba_config.BOUNDSCHECK,
        _numba_config.OPT,
        _numba_config.DEBUGINFO_DEFAULT,
    )
    return hashlib.sha256(repr(flags).encode()).hexdigest()[:16]


@functools.cache
def _digest_of_sources(path: Path) -> str:
    """Digest all files that a kernel of this file is made from."""
    digest = hashlib.sha256()
    for source in sorted(sources_of(path)):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def sources_of(path: Path) -> set[Path]:
    """Return a file and every file that it imports of this package, directly or not."""
    found: set[Path] = set()
    pending = [path]
    while pending:
        source = pending.pop()
        if source not in found:
            found.add(source)
            pending += _imports_of(source)
    return found


@functools.cache
def _imports_of(path: Path) -> list[Path]:
    """Return the files of this package that a file imports: of a package within, all its files."""
    files: list[Path] = []
    for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
        place = _PACKAGE.joinpath(*name.split("."))
        files += place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return files
