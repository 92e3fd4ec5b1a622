"""Keys as words: how a key that a function or columns give is laid out, hashed, and given back to functions and rows.

What
    A key is one value or a tuple of them: ints, truth values, texts, None. Which of the layouts of
    `stretch.windows.layout` it has follows from its types: one int or one text takes a word, two texts share one,
    everything else is KEY_PARTS. Hashes are those of `stretch.windows.groups`, part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stretch.errors import DefinitionError
from stretch.native.hashing import hash_int, hash_next, with_hash
from stretch.native.jit import specialised
from stretch.native.literal import not_literal
from stretch.native.optional import without_none
from stretch.native.text import TEXT, make_text, number_of
from stretch.operator.extract import REST_WORDS
from stretch.operator.spec import where_of
from stretch.windows.layout import KEY_ID, KEY_ID_PAIR, KEY_INT, KEY_PARTS, NULL_INT


class Part(NamedTuple):
    """One value of a key: its type, whether it may be None, and where it is."""

    kind: Any  # TEXT, int64 or boolean
    is_nullable: bool
    word: int  # of the entry
    bit: int  # of the mask


class Key(NamedTuple):
    """The layout of a key; `type` is what functions see as `w.key`."""

    kind: int
    words: int
    parts: tuple[Part, ...]
    is_tuple: bool
    put: Callable[..., int]
    load: Callable[..., Any]
    type: Any


def compile_key(made: Any, operator: str, function: Any = None) -> Key:
    """Return the layout of keys of this type."""
    is_tuple = isinstance(made, types.BaseTuple)
    kinds = list(made.types) if is_tuple else [made]
    bare = [_bare(kind) for kind in kinds]
    if any(kind is None for kind in bare) or len(kinds) > REST_WORDS - 1:
        raise DefinitionError(
            f"{operator}: keys makes {made}",
            where=where_of(function),
            why=f"compiled keys are ints, texts, None, or tuples of up to {REST_WORDS - 1} of them",
            do='make `keys` give such keys, or pass engine="python" to stretch.setup',
        )
    may_be_none = [isinstance(kind, (types.Optional, types.NoneType)) for kind in kinds]
    nullable = [can and of != TEXT for can, of in zip(may_be_none, bare, strict=True)]
    first = 0 if len(kinds) < 2 and not any(nullable) else 1
    parts = tuple(Part(kind, can, first + n, n) for n, (kind, can) in enumerate(zip(bare, nullable, strict=True)))
    if not kinds:
        return Key(KEY_INT, 1, (), True, _put_nothing, _load_nothing, types.Tuple([]))
    if first == 0:
        return _one_word(parts[0], is_tuple)
    if bare == [TEXT, TEXT]:
        return Key(KEY_ID_PAIR, 1, parts, True, _put_id_pair, _load_id_pair, types.UniTuple(TEXT, 2))
    words = 1 + len(parts) + any(nullable)
    loads = [_make_load(part, words - 1) for part in parts]
    load = _load_tuple(loads) if is_tuple else loads[0]
    seen = [types.Optional(part.kind) if part.is_nullable else part.kind for part in parts]
    return Key(
        KEY_PARTS, words, parts, is_tuple, _put_parts(parts, is_tuple), load, types.Tuple(seen) if is_tuple else seen[0]
    )


PAIR_OF_TEXTS = types.UniTuple(TEXT, 2)
NOTHING = types.Tuple([])


def int_key(operator: str) -> Key:
    """Return the layout of ints that are never None."""
    return compile_key(types.int64, operator)


def narrow_key(is_boolean: bool) -> Key:
    """Return the layout of ints of less than 64 bits, of which NULL_INT stands for None."""
    kind = types.boolean if is_boolean else types.int64
    wide: Any = np.bool_ if is_boolean else np.int64

    @specialised
    def load(tables, at):  # type: ignore[no-untyped-def]
        if tables.heap[at] == NULL_INT:
            return None
        return wide(tables.heap[at])

    return Key(KEY_INT, 1, (Part(kind, True, 0, 0),), False, _put_int, load, types.Optional(kind))


def _bare(kind: Any) -> Any:
    """Return the type of a part without None, or None if it cannot be one."""
    kind = kind.type if isinstance(kind, types.Optional) else kind
    if kind == TEXT or isinstance(kind, types.Boolean):
        return kind
    return types.int64 if isinstance(kind, (types.Integer, types.NoneType)) else None


# --- one word


def _one_word(part: Part, is_tuple: bool) -> Key:
    put: Callable[..., int] = _put_id if part.kind == TEXT else _put_int
    load: Callable[..., Any] = _load_id if part.kind == TEXT else _make_load(part, 0)
    kind = KEY_ID if part.kind == TEXT else KEY_INT
    if not is_tuple:
        return Key(kind, 1, (part,), False, put, load, part.kind)

    # A tuple of one is hashed as such.
    @specialised
    def put_one(tables, made, scratch, count):  # type: ignore[no-untyped-def]
        return hash_next(1, put(tables, made[0], scratch, count))

    return Key(kind, 1, (part,), True, put_one, _load_tuple([load]), types.Tuple([part.kind]))


@specialised
def _put_nothing(tables, made, scratch, count):  # type: ignore[no-untyped-def]
    scratch.keys[count] = 0
    return 0


@specialised
def _load_nothing(tables, at):  # type: ignore[no-untyped-def]
    return ()


@specialised
def _put_int(tables, made, scratch, count):  # type: ignore[no-untyped-def]
    key: Any = np.int64(made)
    code = hash_int(key)
    scratch.keys[count] = key
    return code


@specialised
def _id_or_none(made: Any) -> Any:
    return np.int64(0) if made is None else np.int64(number_of(without_none(made)))


@specialised
def _put_id(tables, made, scratch, count):  # type: ignore[no-untyped-def]
    number = _id_or_none(made)
    code = tables.hashes[number]
    scratch.keys[count] = with_hash(number, code)
    return code


@specialised
def _load_id(tables, at):  # type: ignore[no-untyped-def]
    return make_text(tables.heap[at] & 0xFFFFFFFF, tables.texts[0], tables.texts[1])


@specialised
def _put_id_pair(tables, made, scratch, count):  # type: ignore[no-untyped-def]
    left, right = _id_or_none(made[0]), _id_or_none(made[1])
    code = hash_next(hash_next(2, tables.hashes[left]), tables.hashes[right])
    scratch.keys[count] = right << 32 | left
    return code


@specialised
def _load_id_pair(tables, at):  # type: ignore[no-untyped-def]
    records, texts = tables.texts[0], tables.texts[1]
    left = make_text(tables.heap[at] & 0xFFFFFFFF, records, texts)
    return left, make_text(tables.heap[at] >> 32, records, texts)


# --- several words: the hash, the parts, the mask


def _put_parts(parts: tuple[Part, ...], is_tuple: bool) -> Callable[..., int]:
    has_mask = any(part.is_nullable for part in parts)
    mask_at = len(parts)

    @specialised
    def end(tables, made, rest, at, code, mask):  # type: ignore[no-untyped-def]
        if has_mask:
            rest[at + mask_at] = mask
        return code

    put: Callable[..., int] = end
    for part in reversed(parts):
        put = _put_part(part, put)
    begun = len(parts)

    @specialised
    def put_tuple(tables, made, scratch, count):  # type: ignore[no-untyped-def]
        code = put(tables, made, scratch.rest, count * REST_WORDS, not_literal(begun), not_literal(0))
        scratch.keys[count] = code
        return code

    @specialised
    def put_one(tables, made, scratch, count):  # type: ignore[no-untyped-def]
        is_none, key = made is None, _int_or_none(made)
        rest = count * REST_WORDS
        scratch.rest[rest] = key
        scratch.rest[rest + 1] = 1 if is_none else 0
        code = hash_int(key)
        scratch.keys[count] = code
        return code

    return put_tuple if is_tuple else put_one


@specialised
def _int_or_none(made: Any) -> Any:
    return np.int64(0) if made is None else np.int64(without_none(made))  # 0 hashes as None does


def _put_part(part: Part, following: Callable[..., int]) -> Callable[..., int]:
    index, bit = part.bit, 1 << part.bit

    @specialised
    def put_text(tables, made, rest, at, code, mask):  # type: ignore[no-untyped-def]
        number = _id_or_none(made[index])
        rest[at + index] = number
        return following(tables, made, rest, at, hash_next(code, tables.hashes[number]), mask)

    @specialised
    def put_number(tables, made, rest, at, code, mask):  # type: ignore[no-untyped-def]
        number = _int_or_none(made[index])
        rest[at + index] = number
        more = mask | bit if made[index] is None else mask
        return following(tables, made, rest, at, hash_next(code, hash_int(number)), more)

    return put_text if part.kind == TEXT else put_number


def _make_load(part: Part, mask_word: int) -> Callable[..., Any]:
    """Return how a part is read from an entry."""
    word, bit = part.word, 1 << part.bit
    wide: Any = np.bool_ if isinstance(part.kind, types.Boolean) else np.int64
    if part.kind == TEXT:

        @specialised
        def load_text(tables, at):  # type: ignore[no-untyped-def]
            return make_text(tables.heap[at + word], tables.texts[0], tables.texts[1])

        return load_text
    if not part.is_nullable:

        @specialised
        def load_number(tables, at):  # type: ignore[no-untyped-def]
            return wide(tables.heap[at + word])

        return load_number

    @specialised
    def load_or_none(tables, at):  # type: ignore[no-untyped-def]
        if tables.heap[at + mask_word] & bit != 0:
            return None
        return wide(tables.heap[at + word])

    return load_or_none


def _load_tuple(loads: list[Callable[..., Any]]) -> Callable[..., Any]:
    joined = _load_nothing
    for load in reversed(loads):
        joined = _join(load, joined)
    return joined


def _join(load: Callable[..., Any], rest: Callable[..., Any]) -> Callable[..., Any]:
    @specialised
    def load_both(tables, at):  # type: ignore[no-untyped-def]
        return (load(tables, at), *rest(tables, at))

    return load_both
