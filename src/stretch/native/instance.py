"""Window instances as compiled functions see them: `w.key`, `w.left`, `w.right`, and fields of the state by name.

What
    An instance is the address of its state, its boundaries and its key. A field is a word of eight bytes at its offset;
    it reads as an int64, float64 or bool, and what is written is cut to the declared width as machine integers are (a
    `float` is rounded to 32 bits). Compiled only: Python functions see `stretch.reference.store.WindowInstance`.

Who writes what
    Functions of the user, through the instance that they were given: fields of the state, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.extending import models, register_model
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr

from stretch.native.jit import instruction

_WORD = ir.IntType(64)
READ_ONLY = ("key", "left", "right")


class Field(NamedTuple):
    """A field of the state: where it is, and whether it is an "int", "float" or "bool" of so many bits."""

    name: str
    word: int
    kind: str
    bits: int

    @property
    def type(self) -> Any:
        """What it reads as."""
        return {"int": types.int64, "float": types.float64, "bool": types.boolean}[self.kind]


class InstanceType(types.Type):
    """The type of a window instance with these fields and this type of key."""

    def __init__(self, fields: tuple[Field, ...], key: Any) -> None:
        self.fields = {field.name: field for field in fields}
        self.key_type = key
        super().__init__(name=f"Window({fields}, {key})")


@register_model(InstanceType)
class _InstanceModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        numbers = [(name, types.int64) for name in ("address", "left", "right")]
        super().__init__(manager, kind, [*numbers, ("key", kind.key_type)])


def instance_maker(kind: InstanceType) -> Callable[..., Any]:
    """Return the function that makes an instance: (address of its state, left, right, key)."""

    @instruction
    def make(_typing: Any, address: Any, left: Any, right: Any, key: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(kind)(context, builder)
            made.address, made.left, made.right, made.key = values
            return made._getvalue()

        return kind(types.int64, types.int64, types.int64, kind.key_type), generate

    return make


@infer_getattr
class _InstanceAttributes(AttributeTemplate):
    key = InstanceType

    def generic_resolve(self, window: Any, name: str) -> Any:  # type: ignore[override]
        if name in window.fields:
            return window.fields[name].type
        if name in READ_ONLY:
            return window.key_type if name == "key" else types.int64
        known = ", ".join([*READ_ONLY, *window.fields])
        raise TypingError(f"a window instance has no {name!r} in compiled functions; it has {known}")


@lower_getattr_generic(InstanceType)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    made = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    if name not in kind.fields:
        return getattr(made, name)
    field = kind.fields[name]
    pointer = _place(builder, made, field)
    if field.kind == "float":
        return builder.load(builder.bitcast(pointer, ir.DoubleType().as_pointer()))
    word = builder.load(pointer)
    return builder.trunc(word, ir.IntType(1)) if field.kind == "bool" else word


@lower_setattr_generic(InstanceType)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, signature: Any, values: Any, name: str) -> None:
    kind = signature.args[0]
    if name not in kind.fields:
        raise TypingError(f"functions may set only the fields of the state, and {name!r} is not one")
    field = kind.fields[name]
    pointer = _place(builder, cgutils.create_struct_proxy(kind)(context, builder, value=values[0]), field)
    given = values[1]
    if field.kind == "float":
        if field.bits == 32:
            given = builder.fpext(builder.fptrunc(given, ir.FloatType()), ir.DoubleType())
        builder.store(given, builder.bitcast(pointer, ir.DoubleType().as_pointer()))
        return
    if field.kind == "bool":
        given = builder.zext(given, _WORD)
    elif field.bits < 64:
        given = builder.sext(builder.trunc(given, ir.IntType(field.bits)), _WORD)
    builder.store(given, pointer)


def _place(builder: Any, made: Any, field: Field) -> Any:
    address = builder.add(made.address, ir.Constant(_WORD, 8 * field.word))
    return builder.inttoptr(address, _WORD.as_pointer())
